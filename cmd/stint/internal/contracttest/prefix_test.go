package contracttest

import (
	"strings"
	"testing"
)

// prefixOf returns a prefix of keys for a law, so that laws do not share counts.
func prefixOf(t *testing.T) string {
	t.Helper()
	_, law, _ := strings.Cut(t.Name(), "/")
	return strings.ReplaceAll(law, " ", "_")
}
