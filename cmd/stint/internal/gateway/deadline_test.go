package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
)

// hanging is an upstream that answers nothing until its request ends. It sends the
// deadline that it was told, and then nil when the request has ended.
func hanging(told chan<- http.Header) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		told <- r.Header.Clone()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		told <- nil
	})
}

func TestDeadlineIsObeyedAndPassedOn(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		told := make(chan http.Header, 2)
		s := serve(t, front, behind(t, back, hanging(told), Options{}))
		const given = 300 * time.Millisecond
		began := time.Now()
		res, body := get(t, clientOf(t, front, s), s.URL, "X-Deadline-Ms", "300", "Grpc-Timeout", "2S")
		took := time.Since(began)
		if res.StatusCode != http.StatusGatewayTimeout || errorCode(t, body) != "DEADLINE_EXCEEDED" || res.Header.Get("X-Request-Id") == "" {
			t.Errorf("got %d %v %s", res.StatusCode, res.Header, body)
		}
		if took < given || took > patience/2 {
			t.Errorf("answered after %v, want 300 ms", took)
		}
		h := <-told
		left, err := strconv.Atoi(h.Get("X-Deadline-Ms"))
		if err != nil || left <= 0 || left > 300 {
			t.Errorf("the upstream is told %q, want at most 300", h["X-Deadline-Ms"])
		}
		if rest := h.Get("Grpc-Timeout"); !strings.HasSuffix(rest, "n") && !strings.HasSuffix(rest, "u") {
			t.Errorf("the upstream is told grpc-timeout %q, want less than 300 ms", rest)
		}
		select {
		case <-told:
		case <-time.After(patience):
			t.Error("the request goes on at the upstream")
		}
	})
}

func TestDeadlineOfGRPCIsObeyed(t *testing.T) {
	told := make(chan http.Header, 2)
	s := serve(t, h2c, behind(t, h2c, hanging(told), Options{}))
	r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, strings.NewReader("a message"))
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Grpc-Timeout", "50m")
	if res, body := do(t, clientOf(t, h2c, s), r); res.StatusCode != http.StatusGatewayTimeout || errorCode(t, body) != "DEADLINE_EXCEEDED" {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

// A client that stops in the middle of a body does not hold its request beyond the
// deadline.
func TestDeadlineEndsARequestWhoseBodyStops(t *testing.T) {
	for _, front := range []string{http1, h2c} {
		t.Run(front, func(t *testing.T) {
			told := make(chan http.Header, 2)
			s := serve(t, front, behind(t, http1, hanging(told), Options{}))
			part, rest := io.Pipe()
			go func() { _, _ = io.WriteString(rest, "the first part") }()
			t.Cleanup(func() { _ = rest.Close() })
			r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, part)
			r.Header.Set("X-Deadline-Ms", "100")
			if res, body := do(t, clientOf(t, front, s), r); res.StatusCode != http.StatusGatewayTimeout || errorCode(t, body) != "DEADLINE_EXCEEDED" {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
		})
	}
}

func TestDeadlinesThatAreNone(t *testing.T) {
	s := serve(t, http1, behind(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["X-Deadline-Ms"])
	}), Options{}))
	for value, want := range map[string]string{"soon": "200 [soon]", "1e3": "200 [1e3]", "": "200 []", "0": "504", "-5": "504"} {
		res, body := get(t, clientOf(t, http1, s), s.URL, "X-Deadline-Ms", value)
		if got := fmt.Sprint(res.StatusCode, " ", body); !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	res, body := get(t, clientOf(t, http1, s), s.URL, "X-Deadline-Ms", "99999999999999999999999")
	if res.StatusCode != http.StatusOK || len(body) < 10 {
		t.Errorf("a huge deadline: got %d %s", res.StatusCode, body)
	}
}

// The Timeout of a group bounds requests without a deadline, and those that ask for more.
func TestTimeoutOfAGroupBoundsTheWholeRequest(t *testing.T) {
	for _, asked := range []string{"", "60000"} {
		t.Run("asked for "+asked, func(t *testing.T) {
			told := make(chan http.Header, 2)
			g := behind(t, http1, hanging(told), Options{Groups: []GroupOptions{{Timeout: 100 * time.Millisecond}}})
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/", http.NoBody)
			if asked != "" {
				r.Header.Set("X-Deadline-Ms", asked)
			}
			g.ServeHTTP(w, r)
			if w.Code != http.StatusGatewayTimeout || errorCode(t, w.Body.String()) != "UPSTREAM_TIMEOUT" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestDeadlineInTheMiddleOfAResponseCutsItOff(t *testing.T) {
	s := serve(t, http1, behind(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "the first part")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), Options{}))
	r, _ := http.NewRequestWithContext(bounded(t), http.MethodGet, s.URL, http.NoBody)
	r.Header.Set("X-Deadline-Ms", "100")
	res, err := clientOf(t, http1, s).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil || string(body) != "the first part" {
		t.Errorf("got %q, %v; want the first part and an error", body, err)
	}
}

// Requests whose clients give them too little time do not lower the bound on requests in
// flight, whether the gateway or the upstream gives up.
func TestHurriedClientsAreNoLoad(t *testing.T) {
	gaveUp := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) })
	silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, c := range []struct {
		name     string
		upstream http.Handler
		deadline string
		calls    int
	}{
		{"atTheGateway", silent, "5", 0},
		{"notEvenSent", silent, "0", 0},
		{"atTheUpstream", gaveUp, "50", 0},
		{"anUpstreamWithEnoughTime", gaveUp, "60000", 1},
		{"anUpstreamWithoutADeadline", gaveUp, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen windows
			now := time.Unix(0, 0)
			gate, err := adaptive.New(adaptive.Options{Algorithm: &seen, Window: 1, Clock: func() time.Time { now = now.Add(time.Second); return now }})
			if err != nil {
				t.Fatal(err)
			}
			g := newGateway(t, toServers(urlOf(t, serve(t, http1, c.upstream).URL)))
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			if c.deadline != "" {
				r.Header.Set("X-Deadline-Ms", c.deadline)
			}
			adaptive.Middleware{Gate: gate}.Wrap(g).ServeHTTP(w, r)
			calls := 0
			for _, window := range seen {
				calls += window.Calls
			}
			if w.Code != http.StatusGatewayTimeout || calls != c.calls {
				t.Errorf("status %d, %d calls counted; want 504 and %d", w.Code, calls, c.calls)
			}
		})
	}
}
