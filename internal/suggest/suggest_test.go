package suggest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"limit", "limits", "window", "api_key_pattern", "by"}
	for name, want := range map[string]string{
		"limt":           "limit",
		"limist":         "limit", // as near as limits, and before it
		"LIMIT":          "limit",
		"wnidow":         "window",
		"windows":        "window",
		"api-key-patern": "api_key_pattern",
		"api_key":        "",
		"colour":         "",
		"":               "",
		"bi":             "",
		"bye":            "by",
	} {
		got, ok := Name(name, known)
		if got != want || ok != (want != "") {
			t.Errorf("Name(%q) = %q, %t, want %q", name, got, ok, want)
		}
	}
}

func TestDistanceCountsSwapsAsOne(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "Abd", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// A request may use a name of a megabyte; a search for similar names would take
// milliseconds.
func TestALongNameIsNotCompared(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	if n := testing.AllocsPerRun(10, func() { _, _ = Name(long, []string{"limit", "window"}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
