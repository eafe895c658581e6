package deadline

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMiddlewareGivesTime(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name  string
		m     Middleware
		value string // value of the header; "": no header
		want  time.Duration
	}{
		{"asAsked", Middleware{}, "850", 850 * time.Millisecond},
		{"noneUnlessAsked", Middleware{}, "", none},
		{"noneForGarbage", Middleware{}, "soon", none},
		{"theDefault", Middleware{Default: s}, "", s},
		{"theDefaultForGarbage", Middleware{Default: s}, "soon", s},
		{"moreThanTheDefaultWhereAsked", Middleware{Default: s}, "5000", 5 * s},
		{"atMostTheMax", Middleware{Max: s}, "5000", s},
		{"atMostTheMaxOfHuge", Middleware{Max: s}, "99999999999999999999", s},
		{"lessThanTheMaxWhereAsked", Middleware{Max: s}, "5", 5 * time.Millisecond},
		{"theMaxUnlessAsked", Middleware{Max: s}, "", s},
		{"theMaxOfTheDefault", Middleware{Max: s, Default: 5 * s}, "", s},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := httptest.NewRequest("GET", "/", nil)
				if c.value != "" {
					r.Header.Set(DefaultHeader, c.value)
				}
				asked := false
				c.m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					asked = true
					end, ok := r.Context().Deadline()
					if ok != (c.want != none) || ok && time.Until(end) != c.want {
						t.Errorf("%v, %v; want %v", time.Until(end), ok, c.want)
					}
				})).ServeHTTP(httptest.NewRecorder(), r)
				if !asked {
					t.Error("not asked")
				}
			})
		})
	}
}

func TestNoTimeLeftIsNotBegun(t *testing.T) {
	h := Middleware{}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("begun") }))
	for _, value := range []string{"0", "-1"} {
		r, w := httptest.NewRequest("POST", "/", strings.NewReader("a body")), httptest.NewRecorder()
		r.Header.Set(DefaultHeader, value)
		h.ServeHTTP(w, r)
		if w.Code != 504 || !strings.Contains(w.Body.String(), "DEADLINE_EXCEEDED") || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
}

// A handler that has not answered by the deadline is replaced by Expired; one that has is
// left alone.
func TestLateAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    int
	}{
		{"noneIs504", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 504},
		{"lateIsKept", func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusTeapot)
		}, 418},
		{"statusAloneIsKept", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			<-r.Context().Done()
		}, 200},
		{"changeOfProtocolIsKept", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			<-r.Context().Done()
		}, 101},
		{"writtenIsKept", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half of it")
			<-r.Context().Done()
		}, 200},
		{"copiedIsKept", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("half of it"))
			<-r.Context().Done()
		}, 200},
		{"copyOfNothingIsNone", func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader(""))
		}, 504},
		{"flushedIsKept", func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 200},
		{"earlyHintsAreNoAnswer", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			<-r.Context().Done()
		}, 504},
		{"inTimeIsKept", func(http.ResponseWriter, *http.Request) {}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
				Middleware{Default: time.Second}.Wrap(c.handler).ServeHTTP(w, r)
				if w.Code != c.want && w.Code != http.StatusEarlyHints { // a recorder keeps the first status, also an informational one
					t.Errorf("%d, want %d", w.Code, c.want)
				}
				if got := strings.Contains(w.Body.String(), "DEADLINE"); got != (c.want == 504) {
					t.Errorf("answered %q", w.Body)
				}
			})
		})
	}
}

func TestOwnAnswerForExpired(t *testing.T) {
	m := Middleware{Expired: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	r.Header.Set(DefaultHeader, "0")
	m.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusTeapot {
		t.Error(w.Code)
	}
}

// serve runs one request through a handler over a pipe, in virtual time.
func serve(t *testing.T, m Middleware, h http.HandlerFunc, ask func(client *http.Client)) {
	t.Helper()
	n := pipes()
	l, _ := n.listen(0)
	s := &http.Server{Handler: m.Wrap(h)}
	go func() { _ = s.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: n.dial}}
	ask(client)
	client.CloseIdleConnections()
	_ = s.Close()
}

// A handler that reads a body which does not arrive is released at the deadline, and the
// client gets an answer.
func TestStuckReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		start := time.Now()
		serve(t, Middleware{Default: time.Second}, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			if err == nil {
				t.Error("read a body that did not come")
			}
			ended <- time.Since(start)
		}, func(client *http.Client) {
			body, w := io.Pipe()
			defer w.Close()
			resp, err := client.Post("http://service-1/", "text/plain", body)
			if err != nil || resp.StatusCode != 504 {
				t.Errorf("%v, %v", resp, err)
			} else {
				resp.Body.Close()
			}
		})
		if took := <-ended; took != time.Second+grace {
			t.Errorf("read for %v", took)
		}
	})
}

// Expired also answers for a handler that ignores its context, once the handler ends.
func TestVeryLateHandlerIsAnsweredFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve(t, Middleware{Default: time.Second}, func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Minute)
		}, func(client *http.Client) {
			resp, err := client.Get("http://service-1/")
			if err != nil || resp.StatusCode != 504 {
				t.Errorf("%v, %v", resp, err)
			} else {
				resp.Body.Close()
			}
		})
	})
}

// A handler that writes to a client which does not read is released too.
func TestStuckWriteEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		start := time.Now()
		serve(t, Middleware{Default: time.Second}, func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 1<<16))
			}
			ended <- time.Since(start)
		}, func(client *http.Client) {
			resp, err := client.Get("http://service-1/")
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Minute)
			resp.Body.Close()
		})
		if took := <-ended; took != time.Second+writeGrace {
			t.Errorf("wrote for %v", took)
		}
	})
}

// The deadline of one request does not affect the next one on its connection.
func TestConnectionOutlivesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := map[string]bool{}
		serve(t, Middleware{Default: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			conns[r.RemoteAddr] = true
			b, err := io.ReadAll(r.Body)
			_, _ = w.Write(b)
			if err != nil {
				t.Error(err)
			}
		}, func(client *http.Client) {
			for range 3 {
				resp, err := client.Post("http://service-1/", "text/plain", strings.NewReader("a body"))
				if err != nil {
					t.Fatal(err)
				}
				if text, err := io.ReadAll(resp.Body); string(text) != "a body" || err != nil {
					t.Errorf("%q, %v", text, err)
				}
				resp.Body.Close()
				time.Sleep(5 * time.Second)
			}
		})
		if len(conns) != 1 {
			t.Errorf("%d connections", len(conns))
		}
	})
}

// The optional methods of the server's ResponseWriter work through the middleware.
func TestHijackGetsThrough(t *testing.T) {
	server := httptest.NewServer(Middleware{Default: time.Minute}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n")
		conn.Close()
	})))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil || resp.StatusCode != http.StatusTeapot {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
}

// trip makes an http.RoundTripper of a function.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestTransportTellsWhatIsLeft(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name    string
		tr      Transport
		timeout time.Duration // timeout of the context; 0: none
		want    string        // "": no header is sent; "refused": nothing is sent
	}{
		{"theContextsTime", Transport{}, 850 * ms, "850"},
		{"roundedDown", Transport{}, 850*ms - 1, "849"},
		{"nothingWithoutDeadline", Transport{}, 0, ""},
		{"theTimeout", Transport{Timeout: time.Second}, 0, "1000"},
		{"theContextBeforeTheTimeout", Transport{Timeout: time.Second}, 5 * time.Second, "5000"},
		{"lessTheReserve", Transport{Reserve: 50 * ms}, 850 * ms, "800"},
		{"aMillisecondIsEnough", Transport{}, ms, "1"},
		{"notLessThanAMillisecond", Transport{}, ms - 1, "refused"},
		{"notWithinTheReserve", Transport{Reserve: 50 * ms}, 50 * ms, "refused"},
		{"notWithATimeoutWithinTheReserve", Transport{Reserve: 50 * ms, Timeout: ms}, 0, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.timeout > 0 {
					limited, cancel := context.WithTimeout(ctx, c.timeout)
					defer cancel()
					ctx = limited
				}
				header := "refused"
				c.tr.Base = trip(func(req *http.Request) (*http.Response, error) {
					header = req.Header.Get(DefaultHeader)
					return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
				})
				req, err := http.NewRequestWithContext(ctx, "POST", "http://example.com/", strings.NewReader("a body"))
				if err != nil {
					t.Fatal(err)
				}
				closed := &closing{Reader: req.Body}
				req.Body = closed
				resp, err := c.tr.RoundTrip(req)
				if header != c.want || len(req.Header) != 0 {
					t.Errorf("sent %q, want %q; the caller's header: %v", header, c.want, req.Header)
				}
				if refused := c.want == "refused"; refused != errors.Is(err, context.DeadlineExceeded) || refused != closed.done {
					t.Errorf("error %v, body closed: %v", err, closed.done)
				}
				if err == nil {
					resp.Body.Close()
				}
			})
		})
	}
}

// A request that is passed on, for example by a proxy, carries no more time than its
// client sent, whatever the proxy's own deadline.
func TestTransportTellsNoMoreThanTheCaller(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{DefaultHeader, "500", "500"},
		{DefaultHeader, "5000", "1000"},
		{DefaultHeader, "soon", "1000"},
		{DefaultHeader, "0", "refused"},
		{"Grpc-Timeout", "500m", "500"},
		{"X-Envoy-Expected-Rq-Timeout-Ms", "500", "500"},
	} {
		synctest.Test(t, func(t *testing.T) {
			header := "refused"
			tr := &Transport{Timeout: time.Second, Base: trip(func(req *http.Request) (*http.Response, error) {
				header = req.Header.Get(DefaultHeader)
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			})}
			req := httptest.NewRequest("GET", "http://example.com/", nil)
			req.Header.Set(c.name, c.value)
			resp, err := tr.RoundTrip(req)
			if header != c.want || (err != nil) != (c.want == "refused") {
				t.Errorf("%s: %s: sent %q, %v; want %q", c.name, c.value, header, err, c.want)
			}
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}

// All other headers of a request are passed on, also if a request has no headers.
func TestTransportKeepsTheHeader(t *testing.T) {
	for _, h := range []http.Header{{"Accept": {"text/plain"}}, {}, nil} {
		var sent http.Header
		tr := &Transport{Timeout: time.Minute, Base: trip(func(req *http.Request) (*http.Response, error) {
			sent = req.Header
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})}
		req := httptest.NewRequest("GET", "http://example.com/", nil)
		req.Header = h
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if sent.Get("Accept") != h.Get("Accept") || sent.Get(DefaultHeader) == "" || len(req.Header) != len(h) {
			t.Errorf("%v was sent as %v", h, sent)
		}
	}
}

// CloseIdleConnections reaches the Base, as http.Client requires.
func TestIdleConnectionsAreClosed(t *testing.T) {
	closed := 0
	for _, base := range []http.RoundTripper{idle{closed: &closed}, trip(nil)} {
		(&http.Client{Transport: &Transport{Base: base}}).CloseIdleConnections()
	}
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}

type idle struct {
	http.RoundTripper

	closed *int
}

func (i idle) CloseIdleConnections() { *i.closed++ }

type closing struct {
	io.Reader
	done bool
}

func (c *closing) Close() error { c.done = true; return nil }

// Timeout lasts until the body has been read, and its timer is released then.
func TestTimeoutCoversTheBody(t *testing.T) {
	for _, status := range []int{200, 101} {
		synctest.Test(t, func(t *testing.T) {
			var sent *http.Request
			tr := &Transport{Timeout: time.Second, Base: trip(func(req *http.Request) (*http.Response, error) {
				sent = req
				return &http.Response{StatusCode: status, Body: http.NoBody}, nil
			})}
			resp, err := tr.RoundTrip(httptest.NewRequest("GET", "http://example.com/", nil))
			ctx := sent.Context()
			if err != nil || ctx.Err() != nil {
				t.Fatal(err, ctx.Err())
			}
			resp.Body.Close()
			if ended := ctx.Err() != nil; ended != (status == 200) {
				t.Errorf("%d: the context ended with the body: %v", status, ended)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) && status == 101 {
				t.Error(ctx.Err())
			}
		})
	}
}

func TestRefusalIsATimeout(t *testing.T) {
	client := &http.Client{Transport: &Transport{Timeout: time.Hour, Reserve: 2 * time.Hour, Base: trip(func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, io.EOF
	})}}
	resp, err := client.Get("http://example.com/")
	var timeout interface{ Timeout() bool }
	var refused *RefusedError
	if err == nil {
		resp.Body.Close()
	}
	if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.As(err, &refused) || refused.Left != 0 {
		t.Errorf("got %v", err)
	}
}

func TestFailedTripEndsItsContext(t *testing.T) {
	var sent *http.Request
	down := errors.New("down")
	tr := &Transport{Timeout: time.Hour, Base: trip(func(req *http.Request) (*http.Response, error) {
		sent = req
		return nil, down
	})}
	if _, err := tr.RoundTrip(httptest.NewRequest("GET", "http://example.com/", nil)); !errors.Is(err, down) || sent.Context().Err() == nil {
		t.Error(err, sent.Context().Err())
	}
}
