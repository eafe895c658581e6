package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
)

// eachProtocol runs a test for each pair of a client's protocol and an upstream's.
func eachProtocol(t *testing.T, test func(t *testing.T, front, back string)) {
	for _, front := range []string{http1, http2, h2c} {
		for _, back := range []string{http1, http2, h2c} {
			t.Run(front+" to "+back, func(t *testing.T) { test(t, front, back) })
		}
	}
}

func TestRequestArrivesAsItWasSent(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Upstream", r.Proto)
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-Mine"), body)
		})
		s := serve(t, front, behind(t, back, upstream, Options{}))
		r, _ := http.NewRequestWithContext(bounded(t), http.MethodPut, s.URL+"/a%2Fb//c?q=1&q=%20", strings.NewReader("body"))
		r.Header.Set("X-Mine", "yes")
		res, body := do(t, clientOf(t, front, s), r)
		if want := "PUT /a%2Fb//c?q=1&q=%20 yes body"; res.StatusCode != http.StatusTeapot || body != want {
			t.Errorf("got %d %q, want 418 %q", res.StatusCode, body, want)
		}
		if res.Close {
			t.Error("the connection is not reused")
		}
		if got, want := res.Header.Get("X-Upstream"), map[bool]string{true: "HTTP/1.1", false: "HTTP/2.0"}[back == http1]; got != want {
			t.Errorf("the upstream got a request over %s, want %s", got, want)
		}
	})
}

func TestTrailersPassBothWays(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.Copy(w, r.Body)
			w.Header().Set("X-Sum", r.Trailer.Get("X-Part")+"/"+r.Trailer.Get("X-Forwarded-For"))
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "too")
		})
		s := serve(t, front, behind(t, back, upstream, Options{}))
		r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, io.MultiReader(strings.NewReader("body")))
		r.Trailer = http.Header{"X-Part": {"4"}, "X-Forwarded-For": {"6.6.6.6"}}
		res, body := do(t, clientOf(t, front, s), r)
		if body != "body" || res.Trailer.Get("X-Sum") != "4/" || res.Trailer.Get("X-Unannounced") != "too" {
			t.Errorf("got %q and %v, want the sum 4/ without the forged address, and too", body, res.Trailer)
		}
	})
}

// Trailers that identify the client do not pass: rules have not seen them, and some
// applications merge trailers into headers.
func TestTrailersThatIdentifyTheClientAreDropped(t *testing.T) {
	var got http.Header
	upstream := serve(t, http1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = r.Trailer
	}))
	o := toServers(urlOf(t, upstream.URL))
	o.Identifies = func(name string) bool { return name == "X-Tenant" }
	s := serve(t, http1, newGateway(t, o))
	r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, io.MultiReader(strings.NewReader("body")))
	r.Trailer = http.Header{}
	for _, name := range []string{"X-Part", "X-Api-Key", "X_Api_Key", "Cookie", "X-Tenant", "x_tenant", "X-Real-Ip", "X-Request-Id", "X-Deadline-Ms"} {
		r.Trailer.Set(name, "6")
	}
	do(t, clientOf(t, http1, s), r)
	if len(got) != 1 || got.Get("X-Part") != "6" {
		t.Errorf("got the trailers %v, want X-Part alone", got)
	}
}

func TestServerSentEventsArriveOneByOne(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		seen := make(chan int)
		upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				_ = http.NewResponseController(w).Flush()
				<-seen // the next event waits until the client has read this one
			}
		})
		s := serve(t, front, behind(t, back, upstream, Options{}))
		r, _ := http.NewRequestWithContext(bounded(t), http.MethodGet, s.URL, http.NoBody)
		res, err := clientOf(t, front, s).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		for i := range 3 {
			line, err := lines.ReadString('\n')
			if want := fmt.Sprintf("data: %d\n", i); line != want {
				t.Fatalf("event %d: got %q and %v, want %q", i, line, err, want)
			}
			_, _ = lines.ReadString('\n')
			seen <- i
		}
	})
}

func TestWebSocketPassesBothWays(t *testing.T) {
	for _, back := range []string{http1, http2, h2c} {
		t.Run(back, func(t *testing.T) {
			s := serve(t, http1, behind(t, back, http.HandlerFunc(shoutBack), Options{}))
			ctx := bounded(t)
			c, res, err := websocket.Dial(ctx, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.CloseNow() }()
			if res.Header.Get(requestIDHeader) == "" {
				t.Error("the handshake has no request id")
			}
			for _, word := range []string{"one", "two", strings.Repeat("long", 5000)} {
				if err := c.Write(ctx, websocket.MessageText, []byte(word)); err != nil {
					t.Fatal(err)
				}
				_, got, err := c.Read(ctx)
				if string(got) != strings.ToUpper(word) {
					t.Fatalf("got %.20q and %v", got, err)
				}
			}
			if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
				t.Error(err)
			}
		})
	}
}

func shoutBack(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	for {
		kind, word, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, []byte(strings.ToUpper(string(word)))) != nil {
			return
		}
	}
}

func TestEarlyHintsPassAndKeepTheLimitersHeaders(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
		})
		s := serve(t, front, limited(behind(t, back, upstream, Options{})))
		var hints []textproto.MIMEHeader
		ctx := httptrace.WithClientTrace(bounded(t), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hints = append(hints, h); return nil },
		})
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		res, _ := do(t, clientOf(t, front, s), r)
		if len(hints) != 1 || hints[0].Get("Link") == "" || hints[0].Get("X-RateLimit-Limit") != "" {
			t.Errorf("got the hints %v, want one with a link and no limit", hints)
		}
		if res.Header.Get("X-RateLimit-Limit") != "10" {
			t.Errorf("the final answer lost the limit: %v", res.Header)
		}
	})
}

func TestEchoRunsWhileTheUploadLasts(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			buf := make([]byte, 16)
			for {
				n, err := r.Body.Read(buf)
				_, _ = w.Write(buf[:n])
				_ = http.NewResponseController(w).Flush()
				if err != nil {
					return
				}
			}
		})
		s := serve(t, front, behind(t, back, upstream, Options{}))
		body, upload := io.Pipe()
		r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, body)
		go func() { _, _ = upload.Write([]byte("word0")) }()
		res, err := clientOf(t, front, s).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got := make([]byte, 5)
		for i := range 20 {
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != fmt.Sprintf("word%d", i%10) {
				t.Fatalf("echo %d: got %q and %v", i, got, err)
			}
			if _, err := fmt.Fprintf(upload, "word%d", (i+1)%10); err != nil {
				t.Fatal(err)
			}
		}
		_ = upload.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 5 {
			t.Errorf("got %q and %v at the end", rest, err)
		}
	})
}

// noticed is a body that records whether it was read.
type noticed struct {
	io.Reader
	read atomic.Bool
}

func (n *noticed) Read(p []byte) (int, error) { n.read.Store(true); return n.Reader.Read(p) }

func TestBodyIsSentOnlyIfTheUpstreamWantsIt(t *testing.T) {
	for name, wanted := range map[string]bool{"wanted": true, "notWanted": false} {
		t.Run(name, func(t *testing.T) {
			upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !wanted {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				_, _ = io.Copy(w, r.Body)
			})
			s := serve(t, http1, behind(t, http1, upstream, Options{}))
			c := clientOf(t, http1, s)
			c.Transport.(*http.Transport).ExpectContinueTimeout = patience
			body := &noticed{Reader: strings.NewReader("body")}
			r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, body)
			r.Header.Set("Expect", "100-continue")
			_, got := do(t, c, r)
			if body.read.Load() != wanted || wanted && got != "body" {
				t.Errorf("the body was sent: %v; got %q", body.read.Load(), got)
			}
		})
	}
}

func TestClientThatLeavesCancelsTheUpstream(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		canceled := make(chan struct{})
		upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(canceled)
		})
		g := behind(t, back, upstream, Options{})
		s := serve(t, front, g)
		ctx, leave := context.WithCancel(bounded(t))
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		res, err := clientOf(t, front, s).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		leave()
		select {
		case <-canceled:
		case <-t.Context().Done():
		case <-bounded(t).Done():
			t.Fatal("the upstream still works for a client that has left")
		}
	})
}
