package adminapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// Concurrent unconditional changes of different rules on one node all succeed without
// a retry by the client.
func TestNothingIsLostBetweenOperators(t *testing.T) {
	f := newFixture(t, shop)
	const writers = 40
	var done sync.WaitGroup
	for i := range writers {
		done.Go(func() {
			r := httptest.NewRequest("PUT", fmt.Sprintf("/rules/r%d", i), strings.NewReader(fmt.Sprintf(`{"match":{"path":"/%d"},"limit":"%d/s"}`, i, i+1)))
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Errorf("%d: status %d, %s", i, w.Code, w.Body)
			}
		})
	}
	done.Wait()
	if set, v := f.keeper.Current(); len(set.Rules()) != 2+writers || v.Number != 1+writers {
		t.Errorf("version %d has %d rules", v.Number, len(set.Rules()))
	}
}

// contended is a source in which another change always comes first.
type contended struct {
	Rules

	times int
}

func (c *contended) Publish(ctx context.Context, change ruleset.Change) (ruleset.Version, error) {
	if c.times--; c.times >= 0 {
		return ruleset.Version{}, &ruleset.ConflictError{Newest: ruleset.Version{Number: 1}}
	}
	return c.Rules.Publish(ctx, change)
}

// A change without If-Match succeeds although other changes interfere. A change that
// never succeeds is refused, and recorded once.
func TestAnUnconditionalChangeComesThrough(t *testing.T) {
	f := newFixture(t, shop)
	f.Rules = &contended{f.keeper, 30}
	f.want(200, "PUT", "/rules/orders", `{"limit":"1/s"}`)
	f.Rules = &contended{f.keeper, 1000}
	f.want(409, "PUT", "/rules/orders", `{"limit":"2/s"}`)
	if got := f.want(200, "GET", "/audit?n=2", "").body; strings.Count(got, "CONFLICT") != 1 {
		t.Error(got)
	}
}

// Requests that parse the text of the rules are answered one at a time, however many there are.
// A request whose client has left is not answered.
func TestRulesAreReadByOneAtATime(t *testing.T) {
	f := newFixture(t, shop)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for path, by := range map[string]turn{
		"GET /rules/orders": f.reading, "GET /rules/tier/free": f.reading, "GET /lists": f.reading,
		"GET /rules/diff?from=0": f.reading, "POST /rules/validate": f.reading, "DELETE /rules/orders": f.changing,
	} {
		method, path, _ := strings.Cut(path, " ")
		if err := by.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequestWithContext(gone, method, path, strings.NewReader("rules: []")))
		by.end()
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s %s was answered out of turn: status %d, %s", method, path, w.Code, w.Body)
		}
	}
	f.want(200, "GET", "/rules/orders", "")
}
