package deadline

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ends returns how long reads and writes of one request last at a server with timeouts,
// if its client sends no body and reads nothing.
func ends(t *testing.T, server *http.Server, wrap func(http.Handler) http.Handler, value string) (read, write time.Duration) {
	t.Helper()
	n := pipes()
	l, _ := n.listen(0)
	done := make(chan struct{})
	start := time.Now()
	server.Handler = wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		_, _ = io.ReadAll(r.Body)
		read = time.Since(start)
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<16))
		}
		write = time.Since(start)
	}))
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	conn, err := n.dial(t.Context(), "", "service-1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Deadline-Ms: "+value+"\r\nContent-Length: 9\r\n\r\nabc"); err != nil {
		t.Fatal(err)
	}
	<-done
	return read, write
}

// Reads and writes end at the earliest of their bounds, and no client can make that later
// than the server's timeouts.
func TestLeastTimeBoundsReadsAndWrites(t *testing.T) {
	const s = time.Second
	twice := func(h http.Handler) http.Handler { return Middleware{Max: s}.Wrap(Middleware{}.Wrap(h)) }
	for _, c := range []struct {
		name        string
		server      *http.Server
		wrap        func(http.Handler) http.Handler
		value       string
		read, write time.Duration
	}{
		{"theCallersTime", &http.Server{ReadTimeout: 3 * s, WriteTimeout: 5 * s}, Middleware{}.Wrap, "1000", s + grace, s + writeGrace},
		{"theServersTimes", &http.Server{ReadTimeout: 3 * s, WriteTimeout: 5 * s}, Middleware{}.Wrap, "86400000", 3 * s, 5 * s},
		{"theServersTimesOfHuge", &http.Server{ReadTimeout: 3 * s, WriteTimeout: 5 * s}, Middleware{}.Wrap, strings.Repeat("9", 30), 3 * s, 5 * s},
		{"oneOfEach", &http.Server{ReadTimeout: 3 * s, WriteTimeout: 5 * s}, Middleware{}.Wrap, "4000", 3 * s, 4*s + writeGrace},
		{"theServersWithinTheGrace", &http.Server{ReadTimeout: 3 * s, WriteTimeout: 3 * s}, Middleware{}.Wrap, "2990", 3 * s, 3 * s},
		{"noneOfTheServer", &http.Server{ReadTimeout: Off}, Middleware{}.Wrap, "4000", 4*s + grace, 4*s + writeGrace},
		{"theOuterMiddlewares", &http.Server{}, twice, "4000", s + grace, s + writeGrace},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if read, write := ends(t, c.server, c.wrap, c.value); read != c.read || write != c.write {
					t.Errorf("read for %v, wrote until %v; want %v and %v", read, write, c.read, c.write)
				}
			})
		})
	}
}

// Headers that a handler set for a response that it did not send are not part of the
// response that replaces it.
func TestLateAnswerIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve(t, Middleware{Default: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			for name, value := range map[string]string{
				"Content-Length": "5", "Content-Encoding": "br", "Content-Type": "image/png",
				"Etag": `"a"`, "Cache-Control": "max-age=60", "X-Request-Id": "7",
			} {
				w.Header().Set(name, value)
			}
			<-r.Context().Done()
		}, func(client *http.Client) {
			resp, err := client.Get("http://service-1/")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 504 || !strings.Contains(string(body), "DEADLINE_EXCEEDED") {
				t.Errorf("%d %q, %v", resp.StatusCode, body, err)
			}
			if h := resp.Header; h.Get("Content-Encoding")+h.Get("Etag") != "" || h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" || h.Get("X-Request-Id") != "7" {
				t.Errorf("%v", h)
			}
		})
	})
}
