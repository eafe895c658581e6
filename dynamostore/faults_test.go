package dynamostore

import (
	"errors"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

// wantProblem checks an error: its kind, and a part of its problem or mend.
func wantProblem(t *testing.T, err error, kind stint.Kind, text string) {
	t.Helper()
	e, ok := errors.AsType[*stint.Error](err)
	if !ok || e.Kind != kind || !strings.Contains(e.Problem+"\n"+e.Mend, text) {
		t.Errorf("%v (%+v), want %s and %q", err, e, kind, text)
	}
}
