package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func headerBlock(t *testing.T, fields [][2]string) []byte {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, field := range fields {
		if err := e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return block.Bytes()
}

func newDecoder() *hpack.Decoder { return hpack.NewDecoder(4096, nil) }

// TestHTTP2FloodsHarmNoOtherClient floods the gateway by frames that cost a client
// little. What a flood may hold is bounded, and other clients are served.
func TestHTTP2FloodsHarmNoOtherClient(t *testing.T) {
	t.Parallel()
	const many = 20_000
	get := headerBlock(t, [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/held"}})
	for name, c := range map[string]struct {
		send func(f *http2.Framer, i uint32) error
		ends bool // the server ends the connection
	}{
		"rapid reset": {func(f *http2.Framer, i uint32) error {
			return errors.Join(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: get, EndHeaders: true, EndStream: true}),
				f.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
		}, false},
		"streams beyond the bound": {func(f *http2.Framer, i uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: get, EndHeaders: true, EndStream: true})
		}, false},
		"CONTINUATION without end": {func(f *http2.Framer, i uint32) error {
			if i == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: get})
			}
			return f.WriteContinuation(1, false, headerBlockOf("x-filler", strings.Repeat("a", 100)))
		}, true},
		"empty CONTINUATION": {func(f *http2.Framer, i uint32) error {
			if i == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: get})
			}
			return f.WriteContinuation(1, false, nil)
		}, false},
		"SETTINGS": {func(f *http2.Framer, _ uint32) error { return f.WriteSettings() }, false},
		"PING":     {func(f *http2.Framer, i uint32) error { return f.WritePing(false, [8]byte{byte(i)}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var held, most atomic.Int64
			s := run(t, Config{Rules: rulesFile(t, "rules: []\n"), Gateway: "127.0.0.1:0",
				Upstreams: upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/held" {
						most.Store(max(most.Load(), held.Add(1)))
						<-r.Context().Done()
						held.Add(-1)
					}
				})})
			conn := dial(t, s.Addr("gateway"))
			framer := http2.NewFramer(conn, nil)
			_, err := io.WriteString(conn, http2.ClientPreface)
			err = errors.Join(err, framer.WriteSettings())
			for i := uint32(0); i < many && err == nil; i++ {
				err = c.send(framer, i)
			}
			if err == nil && c.ends { // all bytes fitted into the buffers of the sockets
				_, err = io.Copy(io.Discard, conn)
			}
			if c.ends && isTimeout(err) {
				t.Errorf("the connection goes on: %v", err)
			}
			if got := s.get("gateway", "/"); got.status != http.StatusOK {
				t.Errorf("another client: %d %s", got.status, got.body)
			}
			if n := most.Load(); n > 250 { // the streams that a connection may have
				t.Errorf("%d requests at once reached the upstream", n)
			}
		})
	}
}

func headerBlockOf(name, value string) []byte {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}) // the field is written to a buffer
	return block.Bytes()
}

// A header that is small on the wire and large in memory: thousands of references to one entry
// of the table.
func TestHPACKBombIsRefused(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules: []\n"), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	fields := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/"}}
	for range 4000 {
		fields = append(fields, [2]string{"x-bomb", strings.Repeat("a", 3000)})
	}
	block := headerBlock(t, fields)
	if len(block) > 16<<10 {
		t.Fatalf("%d bytes are no bomb", len(block))
	}
	conn := dial(t, s.Addr("gateway"))
	sent := http2.ClientPreface + framed(func(f *http2.Framer) error {
		return errors.Join(f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true}))
	})
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	if status := http2Status(t, conn); status != "431" && status != "closed" {
		t.Errorf("answered %s", status)
	}
}

// TestMessagesThatServersReadDifferentlyAreRefused sends messages that have smuggled requests
// past other proxies.
func TestMessagesThatServersReadDifferentlyAreRefused(t *testing.T) {
	const chunked = "Transfer-Encoding: chunked\r\n"
	var reached atomic.Int64
	s := run(t, Config{Rules: rulesFile(t, "rules: []\n"), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				reached.Add(1)
			}
		})})
	for name, message := range map[string]string{
		"two lengths":              "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"a list of lengths":        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\nab",
		"a length with a sign":     "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
		"a length in hex":          "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na",
		"a length below 0":         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na",
		"space before the colon":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 1\r\n\r\na",
		"chunked twice":            "POST / HTTP/1.1\r\nHost: x\r\n" + chunked + chunked + "\r\n0\r\n\r\n",
		"chunked and another":      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"chunked, by a tab":        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"a folded first line":      "GET / HTTP/1.1\r\n Host: x\r\n\r\n",
		"a bare CR in a value":     "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\rX-B: c\r\n\r\n",
		"a bare CR in the target":  "GET /\rX HTTP/1.1\r\nHost: x\r\n\r\n",
		"NUL in a value":           "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\x00\r\n\r\n",
		"no host":                  "GET / HTTP/1.1\r\n\r\n",
		"two hosts":                "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"a host with a path":       "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n",
		"a host with a space":      "GET / HTTP/1.1\r\nHost: x y\r\n\r\n",
		"a chunk that is no size":  "POST / HTTP/1.1\r\nHost: x\r\n" + chunked + "\r\n0x1\r\na\r\n0\r\n\r\n",
		"a chunk of a huge size":   "POST / HTTP/1.1\r\nHost: x\r\n" + chunked + "\r\nfffffffffffffffff\r\n",
		"a chunk that goes on":     "POST / HTTP/1.1\r\nHost: x\r\n" + chunked + "\r\n1\r\nab\r\n0\r\n\r\n",
		"a bad escape":             "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"another scheme":           "GET mailto:x HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT":                  "CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n",
		"an unknown version":       "GET / HTTP/1.2.3\r\nHost: x\r\n\r\n",
		"h2 preface of no version": "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			before := reached.Load()
			got := sendRaw(t, s.Addr("gateway"), message)
			if got.status < 400 || got.status > 505 || got.status == 502 {
				t.Errorf("%d %s", got.status, got.body)
			}
			if reached.Load() != before {
				t.Error("it reached the upstream")
			}
		})
	}
}

// TestTheForwardedRequestIsTheDecidedOne sends legal messages that the upstream must read in the
// same way as the rules.
func TestTheForwardedRequestIsTheDecidedOne(t *testing.T) {
	type seen struct {
		target, host, body, trailer string
		length                      int64
	}
	reached := make(chan seen, 2)
	s := run(t, Config{Rules: rulesFile(t, "rules:\n  - {id: a, by: [host, path], match: {path: /denied}, deny_all: true, limit: 1/s}\n"), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			reached <- seen{r.RequestURI, r.Host, string(body), r.Trailer.Get("Authorization") + r.Trailer.Get("X-Forwarded-For") + r.Trailer.Get("X-Sum"), r.ContentLength}
		})})
	for name, c := range map[string]struct {
		message string
		status  int
		want    seen
	}{
		"chunked beats a length": {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, seen{"/a", "x", "a", "", -1}},
		"equal lengths are one":  {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 200, seen{"/a", "x", "a", "", 1}},
		"absolute form":          {"GET http://y/a HTTP/1.1\r\nHost: x\r\n\r\n", 200, seen{"/a", "y", "", "", 0}},
		"absolute form, denied":  {"GET http://y/denied HTTP/1.1\r\nHost: x\r\n\r\n", 429, seen{}},
		"a host with a port":     {"GET /a HTTP/1.1\r\nHost: X.example:80\r\n\r\n", 200, seen{"/a", "X.example:80", "", "", 0}},
		"trailers": {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Authorization, X-Forwarded-For\r\n\r\n" +
			"0\r\nX-Sum: 1\r\nAuthorization: Bearer late\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n", 200, seen{"/a", "x", "", "1", -1}},
		"a trailer that was not announced": {"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n", 200, seen{"/a", "x", "", "", -1}},
		"HTTP/1.0":                         {"GET /a HTTP/1.0\r\nHost: x\r\n\r\n", 200, seen{"/a", "x", "", "", 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sendRaw(t, s.Addr("gateway"), c.message); got.status != c.status {
				t.Fatalf("%d %s, want %d", got.status, got.body, c.status)
			}
			if c.status != http.StatusOK {
				return
			}
			if got := <-reached; got != c.want {
				t.Errorf("the upstream got %+v, want %+v", got, c.want)
			}
		})
	}
	if len(reached) > 0 {
		t.Errorf("%+v reached the upstream too", <-reached)
	}
}

// A second request behind the body of a refused request is not read as a request.
func TestBytesAfterARefusedMessageAreNotServed(t *testing.T) {
	var reached atomic.Int64
	s := run(t, Config{Rules: rulesFile(t, "rules: []\n"), Gateway: "127.0.0.1:0",
		Upstreams: upstreamOf(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })})
	for _, first := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n",
	} {
		conn := dial(t, s.Addr("gateway"))
		_, _ = io.WriteString(conn, first+"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n") // the server may close the connection before
		_, err := io.Copy(io.Discard, conn)
		var reset *net.OpError
		if err != nil && !errors.As(err, &reset) || isTimeout(err) {
			t.Errorf("%q: %v", first, err)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}
