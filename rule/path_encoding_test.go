package rule

import (
	"errors"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func TestPathsAreReadAsTheSetSays(t *testing.T) {
	decodes := mustParse(t, `rules:
  - {id: path, limit: 10/s, match: {path: /v1%2Forders}}
  - {id: prefix, limit: 10/s, match: {path_prefix: "/a;x/"}}
  - {id: regex, limit: 10/s, match: {endpoint_regex: "^/r/[^/]+$"}}
`)
	keeps, rejects := decodes.WithPathEncoding(PathKeep), decodes.WithPathEncoding(PathReject)
	for path, want := range map[string]struct{ decoded, kept, rejected string }{
		"/v1/orders":   {"path", "", "path"},
		"/v1%2forders": {"path", "path", "refused"},
		"/v1;a/orders": {"path", "", "refused"},
		"/a/b":         {"prefix", "", "prefix"},
		"/a;x/b":       {"prefix", "prefix", "refused"},
		"/a;x":         {"prefix", "prefix", "refused"},
		"/r/x%2Fy":     {"", "regex", "refused"},
		"/r/x;y":       {"regex", "regex", "refused"},
		"/r/..;/../x":  {"refused", "regex", "refused"},
		"/other;a":     {"", "", "refused"},
	} {
		if got := onlyMatch(t, decodes, path); got != want.decoded {
			t.Errorf("%s decoded: rule %q, want %q", path, got, want.decoded)
		}
		if got := onlyMatch(t, keeps, path); got != want.kept {
			t.Errorf("%s kept: rule %q, want %q", path, got, want.kept)
		}
		if got := onlyMatch(t, rejects, path); got != want.rejected {
			t.Errorf("%s rejected: rule %q, want %q", path, got, want.rejected)
		}
	}
}

// onlyMatch returns the rule that counts a request for the path, "refused" if
// the path cannot be read, and "" if no rule counts it.
func onlyMatch(t *testing.T, s *Set, path string) string {
	t.Helper()
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 100})
	defer store.Close()
	o, err := s.Decide(t.Context(), store, Map{"path": path, "api_key": "k"}, 1)
	var coded *stint.Error
	switch {
	case errors.As(err, &coded) && coded.Code == stint.CodeInvalid && strings.Contains(coded.Problem, "path"):
		return "refused"
	case err != nil:
		t.Fatal(err)
	case len(o.Hits) == 0:
		return ""
	case len(o.Hits) > 1:
		t.Errorf("%s: %d hits", path, len(o.Hits))
	}
	return o.Hits[0].Rule.ID
}

func TestFormIsThePathThatRulesCompare(t *testing.T) {
	for path, want := range map[string][3]string{ // decode, keep, reject; empty: refused
		"/v1//orders/":   {"/v1/orders", "/v1/orders", "/v1/orders"},
		"/v1%2Forders":   {"/v1/orders", "/v1%2Forders", ""},
		"/v1/orders;a=1": {"/v1/orders", "/v1/orders;a=1", ""},
		"/a/..;/../b":    {"", "/a/b", ""},
	} {
		for e := PathDecode; e <= PathReject; e++ {
			if got, err := e.Form(path); got != want[e] || (err != nil) != (want[e] == "") {
				t.Errorf("%v %s: %q, %v; want %q", e, path, got, err, want[e])
			}
		}
	}
}

func TestAmbiguousPathOfARuleIsAMistake(t *testing.T) {
	for _, field := range []string{"path", "path_prefix"} {
		_, err := Parse(File{"r.yaml", []byte("rules: [{id: r, limit: 10/s, match: {" + field + ": /a/..;/../b}}]")})
		if err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// refusing is a request that refuses some of its attributes.
type refusing struct {
	Map

	refused map[string]bool
}

func (r refusing) Refusal(name string) error {
	if r.refused[name] {
		return &stint.Error{Code: stint.CodeInvalid, Problem: name + ": is said twice"}
	}
	return nil
}

func TestARefusedAttributeFailsTheRequestOfRulesThatAskForIt(t *testing.T) {
	for name, c := range map[string]struct {
		rules, refused string
		want           bool
	}{
		"by":                    {"{id: a, by: [header:x-a], limit: 1/s}", "header:x-a", true},
		"match":                 {`{id: a, match: {headers: {x-a: "b*"}}, limit: 1/s}`, "header:x-a", true},
		"exact match":           {"{id: a, match: {headers: {x-a: b}}, limit: 1/s}", "header:x-a", true},
		"cost":                  {"{id: a, cost: header:x-a, limit: 9/s}", "header:x-a", true},
		"nobody asks":           {"{id: a, limit: 1/s}", "header:x-a", false},
		"a shadow rule":         {"{id: a, by: [header:x-a], mode: shadow, limit: 1/s}", "header:x-a", false},
		"a shadow rule first":   {"{id: a, by: [header:x-a], mode: shadow, limit: 1/s}, {id: b, by: [header:x-a], limit: 1/s}", "header:x-a", true},
		"api_key":               {"{id: a, limit: 1/s}", "api_key", true},
		"api_key skips":         {"{id: a, missing: skip, limit: 1/s}", "api_key", true},
		"api_key of other rule": {"{id: a, by: [ip], limit: 1/s}", "api_key", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustParse(t, "rules: ["+c.rules+"]")
			store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 100})
			defer store.Close()
			a := refusing{Map{"ip": "10.0.0.1"}, map[string]bool{c.refused: true}}
			_, err := s.Decide(t.Context(), store, a, 1)
			if got := err != nil && strings.Contains(err.Error(), "said twice"); got != c.want {
				t.Errorf("%v; want an error: %v", err, c.want)
			}
		})
	}
}
