package ruleedit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/rule"
)

const plain = `# The rules of a shop.
version: 3

tiers:
  # Whoever asks gets this one.
  free:   {api_key_pattern: "sk_free_*", limit: 100,  window: 60} # small
  pro:
    api_key_pattern: "sk_pro_*"
    limit: 1000   # a lot
    window: 60
  tiny: 5/s

rules:
  # Orders cost money.
  - id: orders
    match: {path_prefix: /orders}   # all of them
    limit: 10
    window: 60
    # The big customer.
    override:
      "sk_pro_big": {limit: 50}
    # End of orders.

  # Everything else.
  - id: rest
    limit: 100/m

# The end.
whitelist: ["sk_internal"]
`

func file(name, text string) rule.File { return rule.File{Name: name, Data: []byte(text)} }

// edited applies edits to one file and returns its text.
func edited(t *testing.T, name, text string, edits ...Edit) string {
	t.Helper()
	files, set, err := Apply([]rule.File{{Name: name, Data: []byte(text)}}, edits...)
	if err != nil {
		t.Fatal(err)
	}
	if set == nil || len(files) != 1 {
		t.Fatalf("%d files, set %v", len(files), set)
	}
	return string(files[0].Data)
}

// wantDiff compares the lines that an edit removed and added.
func wantDiff(t *testing.T, before, after, want string) {
	t.Helper()
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var got strings.Builder
	for _, line := range a {
		fmt.Fprintf(&got, "-%s\n", line)
	}
	for _, line := range b {
		fmt.Fprintf(&got, "+%s\n", line)
	}
	if got.String() != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%swant%s", got.String(), want)
	}
}

func TestEditsTouchTheirLinesAlone(t *testing.T) {
	for name, test := range map[string]struct {
		edit Edit
		want string
	}{
		"a rule by JSON": {PutRule("rest", []byte(`{"limit":7,"window":"1m","match":{"methods":["GET"]}}`)), `
-    limit: 100/m
+    limit: 7
+    window: 1m
+    match: {methods: [GET]}
`},
		"a rule by YAML keeps its comments": {PutRule("rest", []byte("id: rest\n# less\nlimit: 50/m # for now\n")), `
-    limit: 100/m
+    # less
+    limit: 50/m # for now
`},
		"a rule amid comments": {PutRule("orders", []byte(`{"limit":"1/s"}`)), `
-    match: {path_prefix: /orders}   # all of them
-    limit: 10
-    window: 60
-    # The big customer.
-    override:
-      "sk_pro_big": {limit: 50}
+    limit: 1/s
`},
		"a new rule": {PutRule("new", []byte(`{"limit":"1/s","override":{"k":{"limit":"2/s"}}}`)), `
+  - id: new
+    limit: 1/s
+    override:
+      k: {limit: 2/s}
+
`},
		"a rule is deleted": {DeleteRule("rest"), `
-  # Everything else.
-  - id: rest
-    limit: 100/m
`},
		"a tier on one line": {PutTier("free", []byte(`{"limit":500,"capacity":500}`)), `
-  free:   {api_key_pattern: "sk_free_*", limit: 100,  window: 60} # small
+  free: {api_key_pattern: "sk_free_*", limit: 500, window: 60, capacity: 500} # small
`},
		"a tier on several": {PutTier("pro", []byte(`{"limit":500}`)), `
-    limit: 1000   # a lot
+    limit: 500 # a lot
`},
		"a tier in the short form": {PutTier("tiny", []byte(`{"limit":6}`)), `
-  tiny: 5/s
+  tiny: {limit: 6, window: 1}
`},
		"a field is removed": {PutTier("pro", []byte(`{"api_key_pattern":null}`)), `
-    api_key_pattern: "sk_pro_*"
-    limit: 1000   # a lot
+    limit: 1000 # a lot
`},
		"a new tier": {PutTier("gold", []byte(`{"limit":500,"window":"1m"}`)), `
+  gold: {limit: 500, window: 1m}
`},
	} {
		t.Run(name, func(t *testing.T) { wantDiff(t, plain, edited(t, "rules.yaml", plain, test.edit), test.want) })
	}
}

func TestEditsOfOtherLayouts(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		edit Edit
		want string
	}{
		"an empty file":         {"", PutRule("a", []byte(`{"limit":"1/s"}`)), "rules:\n  - id: a\n    limit: 1/s\n"},
		"no rules":              {"rules: []\n", PutRule("a", []byte(`{"limit":"1/s"}`)), "rules:\n  - id: a\n    limit: 1/s\n"},
		"rules without a value": {"rules:\n", PutRule("a", []byte(`{"limit":"1/s"}`)), "rules:\n  - id: a\n    limit: 1/s\n"},
		"tiers alone":           {"tiers: {a: 1/s}\n", PutTier("b", []byte(`{"limit":"2/s"}`)), "tiers: {a: 1/s, b: {limit: 2/s}}\n"},
		"no end of line":        {"rules:\n- {id: a, limit: 1/s}", PutRule("a", []byte(`{"limit":"2/s"}`)), "rules:\n- {id: a, limit: 2/s}\n"},
		"one rule a document": {"id: a\nlimit: 1/s\n---\n# two\nid: b\nlimit: 1/s\n---\nid: c\nlimit: 1/s\n", PutRule("b", []byte(`{"limit":"2/s"}`)),
			"id: a\nlimit: 1/s\n---\n# two\nid: b\nlimit: 2/s\n---\nid: c\nlimit: 1/s\n"},
		"a document more":         {"id: a\nlimit: 1/s\n", PutRule("b", []byte(`{"limit":"2/s"}`)), "id: a\nlimit: 1/s\n---\nid: b\nlimit: 2/s\n"},
		"the last of a list goes": {"rules:\n- {id: a, limit: 1/s}\n", DeleteRule("a"), "rules: []\n"},
		"flow all over":           {"{rules: [{id: a, limit: 1/s}, {id: b, limit: 1/s}]}\n", PutRule("a", []byte(`{"limit":"2/s"}`)), "{rules: [{id: a, limit: 2/s}, {id: b, limit: 1/s}]}\n"},
		"Windows' lines":          {"rules:\r\n- id: a\r\n  limit: 1/s\r\n- id: b\r\n  limit: 1/s\r\n", PutRule("a", []byte(`{"limit":"2/s"}`)), "rules:\r\n- id: a\r\n  limit: 2/s\r\n- id: b\r\n  limit: 1/s\r\n"},
		"an alias": {"tiers:\n  a: &n {limit: 1, window: 60}\n  b: *n\n", PutTier("b", []byte(`{"limit":2}`)),
			"tiers:\n  a: &n {limit: 1, window: 60}\n  b: {limit: 2, window: 60}\n"},
		"a merge": {"tiers:\n  a: &n {limit: 1, window: 60}\n  b: {<<: *n}\n", PutTier("b", []byte(`{"limit":2}`)),
			"tiers:\n  a: &n {limit: 1, window: 60}\n  b: {<<: *n, limit: 2}\n"},
		"what others repeat": {"tiers:\n  a: &n {limit: 1, window: 60}\n  b: *n\n", PutTier("a", []byte(`{"limit":2}`)),
			"tiers:\n  a: &n {limit: 2, window: 60}\n  b: {limit: 1, window: 60}\n"},
		"burst becomes capacity": {"tiers: {a: {limit: 1, window: 60, burst: 3}}\n", PutTier("a", []byte(`{"capacity":2}`)), "tiers: {a: {limit: 1, window: 60, capacity: 2}}\n"},
		"numbers within params":  {"tiers:\n  a:\n    params: {limit: 1, window: 60}\n", PutTier("a", []byte(`{"limit":2,"capacity":5}`)), "tiers:\n  a:\n    params: {limit: 2, window: 60}\n    capacity: 5\n"},
		"the exact text of numbers": {"rules:\n- {id: a, limit: 1/s}\n", PutRule("a", []byte(`{"capacity":1e2,"refill_rate":1.670,"version":"1"}`)),
			"rules:\n- {id: a, capacity: 1e2, refill_rate: 1.670, version: \"1\"}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := edited(t, "rules.yaml", test.text, test.edit); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestEditsOfJSON(t *testing.T) {
	const text = "{\n \"rules\": [\n  {\"id\": \"a\", \"limit\": \"1/s\"}\n ]\n}\n"
	got := edited(t, "rules.json", text, PutRule("a", []byte("limit: 20\nwindow: 1.5e1\ndeny_all: false\nversion: '2'\n")))
	const want = "{\n \"rules\": [\n  {\n   \"id\": \"a\",\n   \"limit\": 20,\n   \"window\": 1.5e1,\n   \"deny_all\": false,\n   \"version\": \"2\"\n  }\n ]\n}\n"
	if got != want {
		t.Errorf("got %s", got)
	}
}

func TestEditsOfEmptyDocuments(t *testing.T) {
	for _, text := range []string{"", "null", " null\n", "~", "{}", "# empty\n", "---\n", "---\n---\n"} {
		files, _, err := Apply([]rule.File{{Name: "rules.yaml", Data: []byte(text)}}, PutTier("gold", []byte(`{"limit":5,"window":"1m"}`)))
		if err != nil || !strings.Contains(string(files[0].Data), "gold") {
			t.Errorf("%q became %v: %v", text, files, err)
		}
	}
}

func TestMistakesInAnEditSayWhereTheyAre(t *testing.T) {
	for name, test := range map[string]struct {
		edit Edit
		want string
	}{
		"an unknown key":    {PutRule("rest", []byte(`{"limmit":7,"window":"1m"}`)), "body:1:2: a rule has no key \"limmit\" (did you mean limit?)"},
		"a bad number":      {PutTier("pro", []byte("window: 60\nlimit: -5\n")), "body:2:8: limit: -5 is out of range"},
		"another id":        {PutRule("rest", []byte(`{"id":"other","limit":"1/s"}`)), "body:1:7: the rule's id is \"other\""},
		"no mapping":        {PutRule("rest", []byte(`[1]`)), "body:1:1: a rule is not a mapping"},
		"not YAML":          {PutRule("rest", []byte("a: [")), "body:1:1: not YAML"},
		"nothing":           {PutRule("rest", nil), "body: holds 0 documents"},
		"odd YAML":          {PutRule("rest", []byte("{ limit\":7,\"window\":60}")), "body:1:3: a rule has no key"},
		"an override":       {PutOverride("rest", "k", []byte(`{"limits":5}`), time.Time{}), "body:1:11: limits is"},
		"an anchor":         {PutRule("rest", []byte("limit: &a 1/s\n")), "body:1:8: holds an anchor"},
		"a key twice":       {PutTier("pro", []byte(`{"limit":1,"limit":2}`)), "body:1:12: has this key a second time"},
		"a name":            {PutTier("no name", []byte(`{"limit":"1/s"}`)), "tier \"no name\" is not a name"},
		"harm done further": {PutTier("tiny", []byte(`{"limit":null,"window":null,"capacity":5}`)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := []rule.File{{Name: "rules.yaml", Data: []byte(plain)}}
			_, _, err := Apply(files, test.edit)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if string(files[0].Data) != plain {
				t.Error("the files that were given have changed")
			}
		})
	}
}

func TestAMistakeElsewhereIsNamedWhereItWas(t *testing.T) {
	const text = "tiers:\n  a: {limit: 10, window: 60}\nrules:\n- id: x\n  tier: a\n  cost: 5\n"
	_, _, err := Apply([]rule.File{{Name: "other.yaml"}, {Name: "rules.yaml", Data: []byte(text)}}, PutTier("a", []byte("limit:\n  3\n")))
	if err == nil || !strings.HasPrefix(err.Error(), "rules.yaml:6:9: cost: 5 is more than") {
		t.Error(err)
	}
}

func TestAnEditTakesTheFileThatHasTheRule(t *testing.T) {
	files := []rule.File{file("a.yaml", "rules:\n- {id: a, limit: 1/s}\n"), file("b.json", `{"rules":[{"id":"b","limit":"1/s"}]}`)}
	got, _, err := Apply(files, PutRule("b", []byte("limit: 2/s")), PutRule("a", []byte("limit: 3/s")))
	if err != nil {
		t.Fatal(err)
	}
	if string(got[0].Data) != "rules:\n- {id: a, limit: 3/s}\n" || string(got[1].Data) != "{\"rules\":[{\"id\":\"b\",\"limit\":\"2/s\"}]}\n" {
		t.Errorf("%s\n%s", got[0].Data, got[1].Data)
	}
	var missing *NotFoundError
	if _, _, err = Apply(files, DeleteRule("c")); !errors.As(err, &missing) {
		t.Error(err)
	}
}
