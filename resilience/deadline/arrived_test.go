package deadline

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A decision between Arrived and Wrap is not cut short, and the time that it takes is the
// request's.
func TestArrivedCountsTheTimeBeforeWrap(t *testing.T) {
	for _, c := range []struct {
		name      string
		value     string
		decision  time.Duration
		want      time.Duration // left for the handler; none: not bounded; 0: not begun
		forgotten bool          // Arrived is left out
	}{
		{name: "theDecisionIsSubtracted", value: "300", decision: 100 * time.Millisecond, want: 200 * time.Millisecond},
		{name: "aQuickDecisionCostsNothing", value: "300", want: 300 * time.Millisecond},
		{name: "aLateDecisionLeavesNothing", value: "1", decision: time.Second, want: 0},
		{name: "withoutADeadlineNothingIsBounded", decision: time.Second, want: none},
		{name: "garbageBoundsNothing", value: "soon", decision: time.Second, want: none},
		{name: "withoutArrivedTheTimeBeginsAtWrap", value: "300", decision: 100 * time.Millisecond, want: 300 * time.Millisecond, forgotten: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := time.Duration(0)
				inner := Middleware{}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					got = none
					if end, ok := r.Context().Deadline(); ok {
						got = time.Until(end)
					}
				}))
				h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(c.decision)
					if err := r.Context().Err(); err != nil {
						t.Errorf("the decision was cut short: %v", err)
					}
					if left, ok := (Middleware{}).TimeLeft(r); ok != (c.want != none) || ok && max(left, 0) != c.want {
						t.Errorf("TimeLeft returns %v, %v", left, ok)
					}
					inner.ServeHTTP(w, r)
				}))
				if !c.forgotten {
					h = Middleware{}.Arrived(h)
				}
				r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
				if c.value != "" {
					r.Header.Set(DefaultHeader, c.value)
				}
				h.ServeHTTP(w, r)
				if got != c.want || (w.Code == http.StatusGatewayTimeout) != (c.want == 0) {
					t.Errorf("left %v, status %d; want %v", got, w.Code, c.want)
				}
			})
		})
	}
}

func TestCauseTellsWhoseTimeIsOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		m     Middleware
		value string
		want  error
	}{
		{"theCallers", Middleware{Max: time.Minute}, "300", ErrCallersTime},
		{"theServersDefault", Middleware{Default: time.Second}, "", ErrServersTime},
		{"theServersMax", Middleware{Max: time.Second}, "5000", ErrServersTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := httptest.NewRequest("GET", "/", nil)
				if c.value != "" {
					r.Header.Set(DefaultHeader, c.value)
				}
				c.m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					cause := context.Cause(r.Context())
					if !errors.Is(cause, c.want) || !errors.Is(cause, context.DeadlineExceeded) {
						t.Errorf("got %v, want %v", cause, c.want)
					}
				})).ServeHTTP(httptest.NewRecorder(), r)
			})
		})
	}
}

// extended is a body that gives every read a deadline of its own.
type extended struct {
	io.Reader
	conn *http.ResponseController
}

func (b *extended) Read(p []byte) (int, error) {
	_ = b.conn.SetReadDeadline(time.Now().Add(time.Hour))
	return b.Reader.Read(p)
}

// The deadline ends a read that has a deadline of its own.
func TestDeadlineEndsReadsThatWereExtended(t *testing.T) {
	s := httptest.NewServer(Middleware{}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, &extended{r.Body, http.NewResponseController(w)})
	})))
	defer s.Close()
	part, rest := io.Pipe()
	defer rest.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, part)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(rest, "the first part") }()
	r.Header.Set(DefaultHeader, "50")
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("got %d", resp.StatusCode)
	}
}
