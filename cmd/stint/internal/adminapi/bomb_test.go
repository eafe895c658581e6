package adminapi

import (
	"fmt"
	"strings"
	"testing"
)

// A rule file that is cheap to parse but expands to very many values is served, and can be
// replaced. A request that would write the expanded values is refused.
func TestABombDoesNotGoOff(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n- id: a\n  limit: 1/s\n  version: '1'\n  <<:\n")
	for i := range 12 {
		item := "x"
		if i > 0 {
			item = fmt.Sprint("*l", i-1)
		}
		fmt.Fprintf(&text, "  - {version: &l%d [%s]}\n", i, strings.Repeat(item+", ", 9)+item)
	}
	f := newFixture(t, shop)
	f.want(200, "PUT", "/rules", text.String())
	f.want(400, "GET", "/rules/a", "")
	f.want(400, "PUT", "/rules/b", `{"limit":"1/s"}`)
	f.want(200, "PUT", "/rules", shop)
	f.want(200, "GET", "/rules/orders", "")
}
