package adminapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// start is the time at which the tests begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is an API over real rules and a real store, whose time the test
// moves.
type fixture struct {
	*API

	t      *testing.T
	keeper *ruleset.Manager
	store  stint.Store
	logs   *bytes.Buffer
	time   time.Time
}

const shop = `# A shop.
tiers:
  free: {limit: 2, window: 60}
rules:
  # Orders.
  - id: orders
    match: {path: /orders}
    limit: 10
    window: 60
  - id: logins
    by: [ip]
    limit: 5
    window: 60
`

func newFixture(t *testing.T, rules string) *fixture {
	t.Helper()
	f := &fixture{t: t, logs: &bytes.Buffer{}, time: start}
	f.store = stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return f.time }})
	source := &ruleset.Memory{}
	f.keeper = ruleset.NewManager(ruleset.Options{Source: source, Local: true, OnSet: func(*rule.Set, ruleset.Version) {}})
	if err := f.keeper.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.API = New(Config{Rules: f.keeper, Store: f.store, Logger: slog.New(slog.NewTextHandler(f.logs, nil))})
	f.now = func() time.Time { return f.time }
	if rules != "" {
		f.want(200, "PUT", "/rules", rules)
	}
	return f
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) value(t *testing.T) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v in %q", err, r.body)
	}
	return v
}

// at finds a value in the body by its path: "diff.rules.changed".
func (r reply) at(t *testing.T, path string) any {
	t.Helper()
	var v any = r.value(t)
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// do makes a request; header is names and values in turn.
func (f *fixture) do(method, path, body string, header ...string) reply {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	asDocumented(f, method, path, body, header, w)
	received := http.Header{} // as a client reads it
	for name, values := range w.Header() {
		received[http.CanonicalHeaderKey(name)] = values
	}
	return reply{w.Code, received, w.Body.String()}
}

// want makes a request and checks the status of its answer.
func (f *fixture) want(status int, method, path, body string, header ...string) reply {
	f.t.Helper()
	got := f.do(method, path, body, header...)
	if got.status != status {
		f.t.Fatalf("%s %s: status %d, want %d: %s", method, path, got.status, status, got.body)
	}
	return got
}

// text returns the rules in force.
func (f *fixture) text() string {
	f.t.Helper()
	return f.want(200, "GET", "/rules", "", "Accept", "text/yaml").body
}

func (f *fixture) wantText(part string, there bool) {
	f.t.Helper()
	if text := f.text(); strings.Contains(text, part) != there {
		f.t.Errorf("%q is there: %v, in\n%s", part, !there, text)
	}
}
