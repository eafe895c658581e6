package httplimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func TestKeyIsWhatTheFunctionReturns(t *testing.T) {
	secret := errors.New("the session store is down")
	key := func(r *Request) (string, error) {
		switch user := r.URL.Query().Get("user"); user {
		case "broken":
			return "", secret
		case "huge":
			return strings.Repeat("k", stint.MaxKey), nil
		default:
			return user, nil
		}
	}
	m := mustLimit(t, fixed(t), Options{Key: key, By: []string{"header:X-Tenant"}, Clock: func() time.Time { return testNow }})
	handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		user, tenant string
		want         int
	}{
		{"ann", "", 200}, {"ann", "t", 200}, {"ann", "", 429}, {"bob", "", 200},
		{"", "ann", 200}, {"", "ann", 200}, {"", "ann", 429}, // By counts, apart from the key of the same text
		{"ip:192.0.2.1", "", 200}, {"", "", 200}, {"", "", 200}, {"", "", 429}, // the address
		{"a%00b", "", 400}, {"%ff", "", 400}, {"huge", "", 400}, {"broken", "", 500},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/?user="+c.user, nil)
		if c.tenant != "" {
			r.Header.Set("X-Tenant", c.tenant)
		}
		handler.ServeHTTP(w, r)
		if w.Code != c.want || strings.Contains(w.Body.String(), secret.Error()) {
			t.Errorf("user %q, tenant %q: %d %s; want %d", c.user, c.tenant, w.Code, w.Body, c.want)
		}
	}
}

func TestOnDeniedAnswersOrLetsPass(t *testing.T) {
	denials := map[string]struct {
		answer Answer
		status int
		retry  time.Duration
	}{
		"a limit":           {Answer{Decision: denied(), Policies: []Policy{orders(t)}}, 429, 36 * time.Second},
		"a list":            {Answer{Listed: true, Binding: -1}, 403, 0},
		"no store":          {Answer{Decision: stint.Decision{Unavailable: true, RetryAfter: time.Second}, Binding: -1}, 503, time.Second},
		"a limit for ever":  {Answer{Decision: stint.Decision{RetryAfter: stint.Never}, Policies: []Policy{orders(t)}}, 429, 0},
		"a limit, jittered": {Answer{Decision: denied(), Policies: []Policy{orders(t)}, Jitter: 1}, 429, -1},
	}
	for name, c := range denials {
		for _, pass := range []bool{false, true} {
			reached := false
			m := asking(t, answers{answer: c.answer}, Options{OnDenied: func(w http.ResponseWriter, _ *http.Request, a *Answer) bool {
				if pass {
					return true
				}
				w.WriteHeader(a.Status())
				_, _ = fmt.Fprintf(w, "slow down for %v", a.RetryAfter())
				if c.retry >= 0 && a.RetryAfter() != c.retry {
					t.Errorf("%s: retry after %v; want %v", name, a.RetryAfter(), c.retry)
				}
				return false
			}})
			w := httptest.NewRecorder()
			w.Header().Set("Cache-Control", "private") // from a handler around this one
			m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			h := w.Header()
			want, cache := c.status, "no-store"
			if pass {
				want, cache = 200, "private"
			}
			if w.Code != want || reached != pass || h.Get("Cache-Control") != cache || (h.Get("Retry-After") != "") != (!pass && c.retry != 0) {
				t.Errorf("%s, pass %v: %d %v, handler reached: %v", name, pass, w.Code, h, reached)
			}
			if !pass && !strings.HasPrefix(w.Body.String(), "slow down for ") {
				t.Errorf("%s: body %q", name, w.Body)
			}
			if retry := h.Get("Retry-After"); retry != "" && !strings.HasSuffix(w.Body.String(), "for "+(time.Duration(atoi(t, retry))*time.Second).String()) {
				t.Errorf("%s: Retry-After %s, and in the body %q", name, retry, w.Body)
			}
		}
	}
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOnDeniedLetsNoInvalidTokenPass(t *testing.T) {
	m := asking(t, answers{answer: Answer{Decision: denied(), Policies: []Policy{orders(t)}}}, Options{
		Identity: Identity{Tokens: user1(), RejectInvalidTokens: true},
		OnDenied: func(http.ResponseWriter, *http.Request, *Answer) bool { return true },
	})
	handler := m.Wrap(http.NotFoundHandler())
	for token, want := range map[string]int{"good": 404, "forged": 401} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, bearing(token, nil).Request)
		if w.Code != want {
			t.Errorf("%s: %d; want %d", token, w.Code, want)
		}
	}
}

// A hook that panics fails its own request; a hook that writes and lets pass writes before
// the handler. Later requests are decided as before.
func TestHooksThatMisbehaveHarmOnlyTheirRequest(t *testing.T) {
	var wrong atomic.Bool
	bad := func(r *http.Request) bool { return wrong.Load() && r.URL.Path == "/bad" }
	for name, o := range map[string]Options{
		"key":  {Key: func(r *Request) (string, error) { panicIf(bad(r.Request)); return "k", nil }},
		"cost": {Cost: func(r *Request) int64 { panicIf(bad(r.Request)); return 1 }},
		"denied": {Cost: func(r *Request) int64 {
			if bad(r.Request) {
				return 100
			}
			return 1
		}, OnDenied: func(_ http.ResponseWriter, _ *http.Request, a *Answer) bool { panic(a.Status()) }},
		"error": {Cost: func(r *Request) int64 {
			if bad(r.Request) {
				return -1
			}
			return 1
		}, OnError: func(_ http.ResponseWriter, _ *http.Request, err error) bool { panic(err) }},
		"writes twice": {Cost: func(r *Request) int64 {
			if bad(r.Request) {
				return 100
			}
			return 1
		}, OnDenied: func(w http.ResponseWriter, _ *http.Request, a *Answer) bool { w.WriteHeader(a.Status()); return true }},
	} {
		wrong.Store(true)
		s := httptest.NewUnstartedServer(mustLimit(t, fixed(t, stint.Spec{Limit: 10, Window: time.Minute}), o).
			Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.Start()
		response, err := s.Client().Get(s.URL + "/bad")
		if err == nil {
			_ = response.Body.Close()
		}
		if (err == nil) != (name == "writes twice") || err == nil && response.StatusCode != 429 {
			t.Errorf("%s: %v, %v", name, response, err)
		}
		wrong.Store(false)
		for range 3 {
			response, err := s.Client().Get(s.URL + "/bad")
			if err != nil || response.StatusCode != 204 {
				t.Fatalf("%s, afterwards: %v, %v", name, response, err)
			}
			_ = response.Body.Close()
		}
		s.Close()
	}
}

func panicIf(wrong bool) {
	if wrong {
		panic("a hook of the program is wrong")
	}
}

func TestManyKeysStayWithinTheStore(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000, Clock: func() time.Time { return testNow }})
	n := 0
	m := mustLimit(t, over(t, store, compile(t, stint.PerMinute(1))), Options{
		Key: func(*Request) (string, error) { n++; return fmt.Sprintf("user-%d", n), nil },
	})
	w, r := &discard{h: http.Header{}}, httptest.NewRequest("GET", "/", nil)
	for range 100_000 {
		if clear(w.h); !m.Admit(w, r) {
			t.Fatal("a new key was denied")
		}
	}
	if store.Stats().Keys > 1000 {
		t.Errorf("%d keys", store.Stats().Keys)
	}
}

func TestAdmitSetsHeadersOrAnswers(t *testing.T) {
	m := mustLimit(t, fixed(t), Options{Clock: func() time.Time { return testNow }})
	for n, want := range []int{200, 200, 429} {
		w := httptest.NewRecorder()
		if passes := m.Admit(w, httptest.NewRequest("GET", "/", nil)); passes != (want == 200) || w.Code != want || w.Header().Get("X-RateLimit-Limit") != "2" {
			t.Errorf("request %d: %v, %d %v", n, passes, w.Code, w.Header())
		}
	}
}

func TestDecideWritesNothingAndCallsNoHook(t *testing.T) {
	o := Options{
		OnDenied: func(http.ResponseWriter, *http.Request, *Answer) bool { t.Error("a hook was called"); return true },
		OnError:  func(http.ResponseWriter, *http.Request, error) bool { t.Error("a hook was called"); return true },
		Identity: Identity{Tokens: user1(), RejectInvalidTokens: true},
	}
	m := mustLimit(t, fixed(t), o)
	for n, want := range []int{200, 200, 429} {
		if a, err := m.Decide(bearing("good", nil).Request); err != nil || a.Status() != want {
			t.Errorf("request %d: %d, %v", n, a.Status(), err)
		}
	}
	if _, err := asking(t, answers{answer: pass()}, o).Decide(bearing("forged", nil).Request); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("a forged token: %v", err)
	}
	if _, err := asking(t, undecided{}, o).Decide(bearing("good", nil).Request); err == nil {
		t.Error("no error where there is no decision")
	}
}

func TestErrorsHaveOneStatus(t *testing.T) {
	for want, errs := range map[int][]error{
		400: {&stint.Error{Code: stint.CodeInvalid}},
		401: {ErrInvalidToken, fmt.Errorf("token: %w", ErrInvalidToken)},
		503: {&stint.Error{Code: stint.CodeUnavailable}, &stint.Error{Code: stint.CodeTimeout}, &stint.Error{Code: stint.CodeCanceled}, fmt.Errorf("store: %w", &stint.Error{Code: stint.CodeExhausted})},
		500: {&stint.Error{}, errors.New("odd"), nil},
	} {
		for _, err := range errs {
			w := httptest.NewRecorder()
			WriteError(w, httptest.NewRequest("GET", "/", nil), err)
			if got := ErrorStatus(err); got != want || w.Code != want {
				t.Errorf("%v: %d, and written %d; want %d", err, got, w.Code, want)
			}
		}
	}
}

func TestStoreErrorsAreLoggedWithinABound(t *testing.T) {
	var text strings.Builder
	now := testNow
	down := &stint.Error{Code: stint.CodeUnavailable, Problem: "no route to 10.0.0.1"}
	m := asking(t, answers{err: down}, Options{Logger: slog.New(slog.NewTextHandler(&text, nil)), Clock: func() time.Time { return now }})
	handler := m.Wrap(http.NotFoundHandler())
	for range 1000 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer sk_secret")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	now = now.Add(time.Minute)
	request(handler, "/")
	const want = `level=ERROR msg="the rate limit of a request could not be checked" error="no route to 10.0.0.1" code=unavailable suppressed=`
	if got := text.String(); strings.Count(got, "\n") != 2 || strings.Count(got, want) != 2 || !strings.Contains(got, "suppressed=999") || strings.Contains(got, "sk_secret") {
		t.Errorf("the log is\n%s", got)
	}

	text.Reset()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ended))
	asking(t, answers{answer: Answer{Decision: denied(), Policies: []Policy{orders(t)}}}, Options{Logger: slog.New(slog.NewTextHandler(&text, nil))}).
		Admit(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if text.Len() > 0 {
		t.Errorf("logged %s", &text)
	}
}

func TestVerifierThatFailsIsLogged(t *testing.T) {
	for code, want := range map[stint.Code]bool{stint.CodeUnavailable: true, stint.CodeInternal: false} {
		var text strings.Builder
		m := mustLimit(t, fixed(t), Options{
			By:       []string{"jwt:sub"},
			Identity: Identity{Tokens: &verifier{err: &stint.Error{Code: code, Problem: "no keys"}}},
			Logger:   slog.New(slog.NewTextHandler(&text, nil)),
		})
		if !m.Admit(httptest.NewRecorder(), bearing("any", nil).Request) || strings.Contains(text.String(), "no keys") != want {
			t.Errorf("%v: the log is %q", code, &text)
		}
	}
}
