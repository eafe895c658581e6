package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// rawHeaders sends a request over a socket and returns the names of the header fields of
// each response to it as they are on the wire, sorted.
func rawHeaders(t *testing.T, h http.Handler, request string, responses int) (names [][]string) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for range responses {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		var fields []string
		for line := ""; line != "\r\n"; {
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if name, _, ok := strings.Cut(line, ":"); ok && name != "Date" && name != "Content-Length" && name != "Content-Type" && name != "Connection" && name != "Transfer-Encoding" {
				fields = append(fields, name)
			}
		}
		slices.Sort(fields)
		names = append(names, fields)
	}
	return names
}

const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

func TestFieldsAreSpelledAsDocumented(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 100})
	defer store.Close()
	limiter, err := stint.NewLimiter(store, "api", stint.MustParseLimit("1/m"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if w.Header().Get("X-RateLimit-Limit") != "1" {
			t.Error("the handler does not find the field")
		}
		fmt.Fprint(w, "hello")
	})
	got := rawHeaders(t, httplimit.SpellHeaders(m.Wrap(inner)), get+get, 1)
	want := []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
	if !slices.Equal(got[0], want) {
		t.Errorf("%q, want %q", got, want)
	}
	got = rawHeaders(t, httplimit.SpellHeaders(m.Wrap(inner)), get, 1)
	want = []string{"Cache-Control", "RateLimit", "RateLimit-Policy", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
	if !slices.Equal(got[0], want) {
		t.Errorf("a denial: %q, want %q", got, want)
	}
}

// However a handler responds, its fields are spelled once.
func TestFieldsAreSpelledHoweverAHandlerResponds(t *testing.T) {
	for name, respond := range map[string]func(w http.ResponseWriter){
		"nothing is written": func(http.ResponseWriter) {},
		"a status":           func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
		"a body":             func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") },
		"a flush":            func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"the flusher":        func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"a status and a body": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "x")
		},
		"a deadline first": func(w http.ResponseWriter) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
		},
		"an upgrade": func(w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = (&http.Response{StatusCode: 101, ProtoMajor: 1, ProtoMinor: 1, Header: w.Header()}).Write(conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := rawHeaders(t, httplimit.SpellHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, field := range []string{"RateLimit", "X-RateLimit-Status", "X-RateLimited", "Ratelimiter", "Www-Authenticate"} {
					w.Header().Set(field, "1")
				}
				respond(w)
			})), get, 1)
			if want := []string{"RateLimit", "Ratelimiter", "WWW-Authenticate", "X-RateLimit-Status", "X-Ratelimited"}; !slices.Equal(got[0], want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// After an informational response, the handler still finds and changes its fields.
func TestInformationalResponsesKeepTheNames(t *testing.T) {
	got := rawHeaders(t, httplimit.SpellHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "1")
		w.Header().Set("X-RateLimit-Reset", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("X-RateLimit-Reset")
		w.Header().Set("X-RateLimit-Limit", "2")
	})), get, 2)
	if !slices.Equal(got[1], []string{"X-RateLimit-Limit"}) {
		t.Errorf("%q", got)
	}
}

// speller is the response writer of a server that spells field names itself.
type speller struct {
	http.ResponseWriter

	spelling func(name string) string
}

func (s *speller) SpellFields(spelling func(name string) string) { s.spelling = spelling }

// A server that spells field names gets the spelling, and the header keeps its names.
func TestServersSpellFieldsThemselves(t *testing.T) {
	w := &speller{ResponseWriter: httptest.NewRecorder()}
	httplimit.SpellHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "1")
		w.WriteHeader(http.StatusOK)
	})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if got := w.Header().Get("X-RateLimit-Limit"); got != "1" {
		t.Errorf("the header has %v", w.Header())
	}
	if w.spelling == nil || w.spelling("X-Ratelimit-Limit") != "X-RateLimit-Limit" {
		t.Error("the server does not get the spelling")
	}
}
