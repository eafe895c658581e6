package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// batchRules has an enforced rule and a shadow rule.
const batchRules = `
rules:
  - {id: orders, match: {path_prefix: /orders}, by: [api_key], limit: 2, window: 60, algorithm: fixed_window}
  - {id: seen, match: {path_prefix: /seen}, by: [api_key], limit: 1, window: 60, mode: shadow}
blacklist: ["sk_revoked_*"]
`

// batchItems are bodies of /v1/check and /v1/take, valid and invalid.
func batchItems() []string {
	return []string{
		`{"attributes":{"api_key":"a","path":"/orders"}}`,
		`{"key":"k","limit":{"algorithm":"fixed_window","limit":3,"window":"1m"},"cost":2}`,
		`{"attributes":{"api_key":"a","path":"/orders"},"cost":2}`,
		`{"attributes":{"api_key":"a","path":"/seen"}}`,
		`{"key":"k","limit":{"algorithm":"fixed_window","limit":3,"window":"1m"},"cost":2}`,
		`{"key":"k","limit":"1/s","csot":2}`,
		`{"key":"","limit":"1/s"}`,
		`{"attributes":{"api_key":"sk_revoked_1","path":"/orders"}}`,
		`{"attributes":{"api_key":"a","path":"/none"}}`,
		`{"attributes":{"api_key":"a\nb","path":"/orders"}}`,
		`{"attributes":{"api_key":"a","path":"/orders"},"cost":-1}`,
		`{"key":"k","limits":["2/s",{"limit":1,"window":"1h"}]}`,
		`{"key":"k","limits":["2/s",{"limit":1,"window":"1h"}]}`,
		`{"key":"k","limit":{"algorithm":"fixed_window","limit":3,"window":"1m"},"cost":-1,"at_us":1700000040000000}`,
		`{"key":"k","limit":"2/s","cost":3}`,
		`{"key":"k","limit":"2/s","cost":1e3}`,
		`{"key":"k","limit":{"algorithm":"leaky_bucket","limit":1,"window":"1h","queue":5}}`,
		`{"key":"k","limit":{"algorithm":"leaky_bucket","limit":1,"window":"1h","queue":5}}`,
		`{"attributes":{"api_key":"a","path":"/orders"},"cost":0}`,
	}
}

func batchOf(items ...string) string { return `{"items":[` + strings.Join(items, ",") + `]}` }

// answersOf returns the text of each answer of a batch.
func answersOf(t *testing.T, a answer) []string {
	t.Helper()
	var body struct{ Answers []json.RawMessage }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", a.status, err, a.body)
	}
	all := make([]string, len(body.Answers))
	for i, raw := range body.Answers {
		all[i] = string(raw)
	}
	return all
}

// TestBatchAnswersAsItsItemsAlone sends a batch to one server, and the same items one after the
// other to another.
func TestBatchAnswersAsItsItemsAlone(t *testing.T) {
	together, alone := run(t, Config{Rules: rulesFile(t, batchRules)}), run(t, Config{Rules: rulesFile(t, batchRules)})
	for range 2 {
		got := answersOf(t, together.post("http", "/v1/batch", batchOf(batchItems()...)))
		if len(got) != len(batchItems()) {
			t.Fatalf("%d answers to %d items", len(got), len(batchItems()))
		}
		for i, item := range batchItems() {
			path := "/v1/take"
			if strings.Contains(item, "attributes") {
				path = "/v1/check"
			}
			if want := strings.TrimSpace(alone.post("http", path, item).body); got[i] != want && !strings.Contains(item, "csot") {
				t.Errorf("%s\ngot  %s\nwant %s", item, got[i], want)
			}
		}
		together.clock.add(30 * time.Second)
		alone.clock.add(30 * time.Second)
	}
	const want = `stint_check_duration_seconds_count{surface="`
	for surface, n := range map[string]int{"check": 14, "take": 16} {
		together.wantMetric(fmt.Sprintf("%s%s\"} %d", want, surface, n), true)
	}
}

func TestBadBatchesSayWhatIsWrong(t *testing.T) {
	s := run(t, Config{})
	for name, c := range map[string]struct{ body, want string }{
		"a list":          {`[]`, "a JSON object is expected"},
		"no items":        {`{}`, "items: is missing"},
		"misspelt":        {`{"item":[]}`, "did you mean items?"},
		"items twice":     {`{"items":[],"items":[]}`, "is given twice"},
		"no list":         {`{"items":{}}`, "items: must be a list"},
		"null":            {`{"items":null}`, "items: must be a list"},
		"more than bound": {batchOf(strings.Split(strings.Repeat(`{} `, 1000)+`{}`, " ")...), "items: has 1001 items (give at most 1000)"},
	} {
		if got := s.post("http", "/v1/batch", c.body); got.status != http.StatusBadRequest || !strings.Contains(got.errorMessage(), c.want) {
			t.Errorf("%s: status %d: %s\nwant 400 with %q", name, got.status, got.body, c.want)
		}
	}
	if got := answersOf(t, s.post("http", "/v1/batch", batchOf())); len(got) != 0 {
		t.Errorf("no items: %v", got)
	}
}

func TestBadItemsSayWhatIsWrong(t *testing.T) {
	s := run(t, Config{})
	for item, want := range map[string]string{
		`1`:                      "a JSON object is expected",
		`null`:                   "a JSON object is expected",
		`{}`:                     "give attributes for the rules to decide, or a key and its limit",
		`{"key":"k"}`:            "give either limit, or limits",
		`{"limit":"1/s"}`:        "key: is empty",
		`{"attribute":{}}`:       "did you mean attributes?",
		`{"attributes":{"a":1}}`: "",
		`{"attributes":{},"key":"k","limit":"1/s"}`: "attributes: cannot stand beside key, limit",
		`{"attributes":{},"at_us":5}`:               "at_us: belongs to a key",
	} {
		got := answersOf(t, s.post("http", "/v1/batch", batchOf(item, `{"key":"k","limit":"999/s"}`)))
		if len(got) != 2 || !strings.Contains(got[0], want) || strings.Contains(got[0], `"error"`) != (want != "") {
			t.Errorf("%s: %v, want %q", item, got, want)
		}
		if !strings.Contains(got[1], `"allowed":true`) {
			t.Errorf("%s fails its neighbour: %s", item, got[1])
		}
	}
}

// counted counts the calls to a store.
type counted struct {
	stint.Store
	takes, groups int
}

func (c *counted) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	c.takes++
	return c.Store.Take(ctx, claim)
}

func (c *counted) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	c.groups++
	return c.Store.TakeGroups(ctx, groups, out)
}

func TestBatchIsOneCallOfTheStore(t *testing.T) {
	store := &counted{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000})}
	s := run(t, Config{Store: store, Rules: rulesFile(t, batchRules)})
	s.post("http", "/v1/batch", batchOf(batchItems()...))
	if store.takes != 0 || store.groups != 1 {
		t.Errorf("%d calls of Take and %d of TakeGroups, want one for the whole batch", store.takes, store.groups)
	}
	s.post("http", "/v1/take", `{"key":"k","limit":"1/s"}`)
	s.post("http", "/v1/check", `{"attributes":{"api_key":"a","path":"/orders"}}`)
	if store.takes != 2 {
		t.Errorf("%d calls of Take, want one for each claim that is asked alone", store.takes)
	}
}

// TestBatchWhileTheStoreFails has items that fail closed, items that fail open, and items that
// cannot be answered.
func TestBatchWhileTheStoreFails(t *testing.T) {
	s := guarded(t, Config{})
	got := answersOf(t, s.post("http", "/v1/batch", batchOf(
		`{"attributes":{"api_key":"a","path":"/open"}}`, `{"attributes":{"api_key":"a","path":"/closed"}}`,
		`{"key":"k","limit":"1/s"}`, `{"key":"k","limit":"1/s","on_store_failure":"closed"}`, `{"key":"k","limit":"1/s","cost":-1}`,
	)))
	for i, want := range []string{`{"allowed":true,`, `{"allowed":false,`, `{"allowed":true,`, `{"allowed":false,`, `{"error":{"code":"STORE_UNAVAILABLE",`} {
		if !strings.HasPrefix(got[i], want) || i < 4 && !strings.Contains(got[i], `"degraded":true`) {
			t.Errorf("%d: %s, want %s", i, got[i], want)
		}
	}
}

func TestBatchOverAStoreThatIsDownFailsEachItem(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, batchRules), Store: failing{code: stint.CodeUnavailable}})
	got := answersOf(t, s.post("http", "/v1/batch", batchOf(`{"key":"k","limit":"1/s"}`, `{"attributes":{"path":"/none"}}`, `{"key":"k","limit":"1/s"}`)))
	if !strings.Contains(got[0], "STORE_UNAVAILABLE") || got[1] != `{"allowed":true,"limits":[]}` || got[2] != got[0] || strings.Contains(got[0], "10.0.0.5") {
		t.Errorf("%v", got)
	}
	if n := strings.Count(s.logs.String(), "no decision"); n != 1 {
		t.Errorf("%d lines of the log, want one for the batch", n)
	}
}
