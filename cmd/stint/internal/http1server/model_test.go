package http1server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

const patience = 20 * time.Second

// pair is a Server and an http.Server with the same handler. The tests compare them.
type pair struct {
	plain, model net.Addr
	server       *Server
}

func serve(t testing.TB, h http.HandlerFunc) *pair {
	t.Helper()
	p := &pair{}
	for _, fast := range []bool{true, false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: patience, Protocols: new(http.Protocols)}
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(func() { _ = s.Close() })
		if !fast {
			p.model = l.Addr()
			go func() { _ = s.Serve(l) }()
			continue
		}
		p.plain, p.server = l.Addr(), New(s)
		t.Cleanup(p.server.Close)
		go func() { _ = p.server.Serve(l) }()
	}
	return p
}

func dial(t testing.TB, to net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

var dates = regexp.MustCompile("\r\nDate: [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT\r\n")

// converse sends requests one after the other, and returns all bytes of the responses and
// how the connection stands then.
func converse(t testing.TB, to net.Addr, requests []string) string {
	t.Helper()
	c := dial(t, to)
	var got bytes.Buffer
	r := bufio.NewReader(io.TeeReader(c, &got))
	for _, request := range requests {
		if _, err := io.WriteString(c, request); err != nil {
			break
		}
		method, _, _ := strings.Cut(request, " ")
		for {
			res, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				return dates.ReplaceAllString(got.String(), "\r\nDate: now\r\n") + "[closed]"
			}
			if _, err = io.Copy(io.Discard, res.Body); err != nil {
				return got.String()
			}
			if res.StatusCode >= 200 {
				break
			}
		}
	}
	return dates.ReplaceAllString(got.String(), "\r\nDate: now\r\n")
}

const get = "GET /path?query HTTP/1.1\r\nHost: example.com\r\n\r\n"

// handlers write every kind of response.
var handlers = map[string]http.HandlerFunc{
	"nothing":          func(http.ResponseWriter, *http.Request) {},
	"small":            func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
	"smallTwice":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello"); _, _ = io.WriteString(w, "<b>") },
	"bufferExactly":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2048)) },
	"large":            func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) },
	"manyParts":        func(w http.ResponseWriter, _ *http.Request) { writeParts(w, 3000, "abcdefg") },
	"flushed":          func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a"); flush(w); fmt.Fprint(w, "b") },
	"flushedFirst":     func(w http.ResponseWriter, _ *http.Request) { flush(w); fmt.Fprint(w, "b") },
	"onlyFlushed":      func(w http.ResponseWriter, _ *http.Request) { flush(w) },
	"length":           with("Content-Length", "5", 200, "hello"),
	"lengthTooSmall":   with("Content-Length", "3", 200, "hello"),
	"lengthTooLarge":   with("Content-Length", "30", 200, "hello"),
	"lengthZero":       with("Content-Length", "0", 200, ""),
	"type":             with("Content-Type", "text/x", 200, "hello"),
	"noType":           func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = nil; fmt.Fprint(w, "hello") },
	"noDate":           func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil; fmt.Fprint(w, "hello") },
	"ownDate":          with("Date", "yesterday", 200, "hello"),
	"encoded":          with("Content-Encoding", "gzip", 200, "hello"),
	"close":            with("Connection", "close", 200, "hello"),
	"closeUpper":       with("Connection", "Close", 200, "hello"),
	"closeAndMore":     with("Connection", "close, x", 200, "hello"),
	"keepAlive":        with("Connection", "keep-alive", 200, "hello"),
	"status204":        with("Content-Length", "5", 204, "hello"),
	"status304":        with("Content-Type", "text/x", 304, "hello"),
	"status304Length":  with("Content-Length", "5", 304, ""),
	"status404":        func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
	"status599":        with("X", "y", 599, "hello"),
	"statusTwice":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(202) },
	"headerAfterwards": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.Header().Set("Late", "x") },
	"closeAfterwards": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		w.Header().Set("Connection", "close")
	},
	"badStatus": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) },
	"spelled": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-RateLimit"] = []string{"1", "2"}
		w.Header()["etag"] = []string{"x"}
	},
	"injected":   with("X", "a\r\nSet-Cookie: b\n ", 200, ""),
	"badName":    func(w http.ResponseWriter, _ *http.Request) { w.Header()["X: y\r\nZ"] = []string{"1"} },
	"manyFields": manyFields,
	"earlyHints": earlyHints,
	"panics":     func(http.ResponseWriter, *http.Request) { panic("no") },
	"aborts":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello"); panic(http.ErrAbortHandler) },
	"abortsFlushed": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
		flush(w)
		panic(http.ErrAbortHandler)
	},
	"trailers":         trailers,
	"trailersByPrefix": func(w http.ResponseWriter, _ *http.Request) { flush(w); w.Header().Set(http.TrailerPrefix+"Sum", "7") },
	"trailersEarly": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(http.TrailerPrefix+"Sum", "7")
		fmt.Fprint(w, "x")
	},
	"trailersLength": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Sum")
		with("Content-Length", "1", 200, "x")(w, nil)
	},
	"badTrailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Content-Length, ,Sum")
		w.Header().Set("Sum", "1")
	},
	"deadlines": deadlines,
	"everyByte": echoRequest,
}

// An invalid length is dropped. net/http writes it.
func TestInvalidLengths(t *testing.T) {
	for _, length := range []string{"five", "-5"} {
		p := serve(t, with("Content-Length", length, 200, "hello"))
		if got := converse(t, p.plain, []string{get}); !strings.Contains(got, "\r\nContent-Length: 5\r\n") || !strings.HasSuffix(got, "hello") {
			t.Errorf("%s: the response is %q", length, got)
		}
	}
}

func with(name, value string, status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(name, value)
		w.WriteHeader(status)
		_, err := io.WriteString(w, body)
		w.Header().Set("Late", fmt.Sprint(err))
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func writeParts(w io.Writer, n int, part string) {
	for range n {
		_, _ = io.WriteString(w, part)
	}
}

func manyFields(w http.ResponseWriter, _ *http.Request) {
	for i := range 2 * http1line.MaxKeptFields {
		w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("v", 200))
	}
}

func earlyHints(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Link", "</a>")
	w.Header().Set("Content-Length", "2")
	w.WriteHeader(http.StatusEarlyHints)
	fmt.Fprint(w, "ok")
}

func trailers(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Trailer", "Sum, other")
	fmt.Fprint(w, "hello")
	w.Header().Set("Sum", "1")
	w.Header().Add("Sum", "2")
	w.Header().Set("Other", "3")
	w.Header().Set("Third", "4")
}

func deadlines(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	fmt.Fprint(w, c.SetReadDeadline(time.Now().Add(patience)), c.SetWriteDeadline(time.Now().Add(patience)), c.EnableFullDuplex())
	_, hasServer := r.Context().Value(http.ServerContextKey).(*http.Server)
	_, hasAddr := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	fmt.Fprint(w, hasServer, hasAddr, r.Context().Err())
}

func TestResponsesEqualThoseOfNetHTTP(t *testing.T) {
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			p := serve(t, handler)
			for _, request := range []string{get, strings.Replace(get, "GET", "HEAD", 1), strings.Replace(get, "GET", "OPTIONS", 1)} {
				want := converse(t, p.model, []string{request, request, request})
				got := converse(t, p.plain, []string{request, request, request})
				if got != want {
					t.Errorf("the responses to %q are\n%q, want\n%q", request, got, want)
				}
			}
		})
	}
}

// What a connection keeps of a response does not change the next one, which has other fields.
func TestFieldsOfResponsesAreIndependent(t *testing.T) {
	fields := []string{"A", "B", "X-C", "X-D", "Etag", "Content-Length", "Connection", "Trailer:E", "bad name"}
	turn := map[string]*rand.Rand{}
	seed := rand.Uint64()
	var mu sync.Mutex
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		random := turn[r.Host]
		for range 1 + random.IntN(3) {
			name := fields[random.IntN(len(fields))]
			w.Header()[name] = []string{"5", "x"}[:1+random.IntN(2)]
		}
		if values := w.Header()["Content-Length"]; len(values) > 1 {
			w.Header()["Content-Length"] = values[:1]
		}
		if random.IntN(4) == 0 {
			w.WriteHeader(http.StatusEarlyHints)
		}
		fmt.Fprint(w, "hello")
	})
	for round := range uint64(20) {
		turn["example.com"] = rand.New(rand.NewPCG(seed, round))
		want := converse(t, p.model, slices.Repeat([]string{get}, 20))
		turn["example.com"] = rand.New(rand.NewPCG(seed, round))
		if got := converse(t, p.plain, slices.Repeat([]string{get}, 20)); got != want {
			t.Fatalf("seed %d, round %d: the responses are\n%q, want\n%q", seed, round, got, want)
		}
	}
}

// echoRequest answers with all that a handler sees of a request.
func echoRequest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprintf(w, "%q %q %#v %q %q %d %q %v %v %q %q %q %v %v", r.Method, r.RequestURI, *r.URL, r.Host, r.Proto, r.ContentLength, r.TransferEncoding,
		r.Close, r.Header, r.Trailer, host, body, err, r.TLS)
}

// What a handler changes in a request does not change the next one on the connection.
func TestRequestsAreIndependent(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %v ", r.Pattern, r.Context().Err())
		echoRequest(w, r)
		r.Method, r.RequestURI, r.Proto, r.Host, r.RemoteAddr, r.Pattern = "changed", "changed", "changed", "changed", "changed", "changed"
		r.Body, r.ContentLength, r.TransferEncoding, r.Close = nil, 1, []string{"changed"}, true
		r.URL.Path, r.URL.RawQuery = "changed", "changed"
		r.Header.Set("Changed", "changed")
		r.Trailer = http.Header{"Changed": {"changed"}}
		r.SetPathValue("name", "changed")
	})
	all := []string{get, requests["fields"], get, requests["get"]}
	if got, want := converse(t, p.plain, all), converse(t, p.model, all); got != want {
		t.Errorf("the responses are\n%q, want\n%q", got, want)
	}
}

// The context of a request stays that of this request, whatever the connection serves next.
func TestContextsMayBeKept(t *testing.T) {
	var kept []context.Context
	p := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		for i, ctx := range kept {
			if !errors.Is(ctx.Err(), context.Canceled) || !isDone(ctx) || isDone(r.Context()) {
				t.Errorf("context %d: %v", i, ctx.Err())
			}
		}
		kept = append(kept, r.Context())
	})
	converse(t, p.plain, slices.Repeat([]string{get}, 4))
	if len(kept) != 4 {
		t.Errorf("%d requests", len(kept))
	}
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// An idle connection keeps nothing of its last request.
func TestIdleConnectionsKeepNoRequest(t *testing.T) {
	p := serve(t, func(_ http.ResponseWriter, r *http.Request) { r.Body = io.NopCloser(strings.NewReader("large")) })
	c := dial(t, p.plain)
	send(t, c, get)
	readResponse(t, bufio.NewReader(c))
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	late := time.After(patience)
	for c := range p.server.conns {
		for c.state.Load() != int32(http.StateIdle) {
			select {
			case <-late:
				t.Fatal("the connection is not idle")
			case <-time.After(time.Millisecond):
			}
		}
		if !reflect.DeepEqual(c.request, http.Request{}) {
			t.Errorf("%+v", c.request)
		}
	}
}

// requests are plain and all kinds of others.
var requests = map[string]string{
	"get":           get,
	"fields":        "GET / HTTP/1.1\r\nhost: a.b:80\r\nuser-agent: x\r\nX_y: a \t b\r\nAccept:\r\nA: \r\nX_y: 2\r\n\r\n",
	"keepAlive":     "GET / HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n",
	"escaped":       "GET /a%2fb//c;d?e=%zz&f#g HTTP/1.1\r\nHost: a\r\n\r\n",
	"badEscape":     "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"twoSlashes":    "GET //a.b/c HTTP/1.1\r\nHost: a\r\n\r\n",
	"ipv6":          "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
	"emptyHost":     "GET / HTTP/1.1\r\nHost: \r\n\r\n",
	"noHost":        "GET / HTTP/1.1\r\nA: b\r\n\r\n",
	"twoHosts":      "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
	"badHost":       "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"absolute":      "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
	"asterisk":      "OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n",
	"close":         "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"body":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
	"getBody":       "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
	"chunked":       "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	"spaceColon":    "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
	"folded":        "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
	"bareLF":        "GET / HTTP/1.1\nHost: a\n\n",
	"bareCR":        "GET / HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n",
	"nul":           "GET / HTTP/1.1\r\nHost: a\r\nA: b\x00c\r\n\r\n",
	"latin":         "GET / HTTP/1.1\r\nHost: a\r\nA: \xe4\r\n\r\n",
	"noColon":       "GET / HTTP/1.1\r\nHost: a\r\nA\r\n\r\n",
	"noName":        "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
	"badName":       "GET / HTTP/1.1\r\nHost: a\r\nA@: b\r\n\r\n",
	"twoSpaces":     "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"old":           "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	"older":         "GET /a/path/of/HTTP/0.9\r\n\r\n",
	"newer":         "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
	"emptyLine":     "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"pragma":        "GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n",
	"expect":        "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
	"expectOther":   "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n",
	"trailer":       "GET / HTTP/1.1\r\nHost: a\r\nTrailer: x\r\n\r\n",
	"upgrade":       "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	"long":          "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("b", maxHead) + "\r\n\r\n",
	"longest":       "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("b", maxHead-len("GET / HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n")) + "\r\n\r\n",
	"lowerMethod":   "get / HTTP/1.1\r\nHost: a\r\n\r\n",
	"unknownMethod": "GETX / HTTP/1.1\r\nHost: a\r\n\r\n",
	"delete":        "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n",
	"tls":           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}

func TestRequestsReachHandlersAsFromNetHTTP(t *testing.T) {
	p := serve(t, echoRequest)
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			conversation := []string{get, request, get}
			if want, got := converse(t, p.model, conversation), converse(t, p.plain, conversation); got != want {
				t.Errorf("the responses are\n%q, want\n%q", got, want)
			}
			if want, got := converse(t, p.model, []string{request}), converse(t, p.plain, []string{request}); got != want {
				t.Errorf("the first response is\n%q, want\n%q", got, want)
			}
		})
	}
}

// parseHead reads the first head of a connection.
func parseHead(text string) (*head, http1line.Verdict) {
	h := &head{}
	return h, h.parse(text)
}

// filled returns what a handler sees of a head.
func filled(h *head) *http.Request {
	r := &http.Request{}
	h.fill(r)
	return r
}

// Only these requests are plain: the others must reach net/http.
func TestPlainRequests(t *testing.T) {
	plainOnes := map[string]bool{"get": true, "fields": true, "keepAlive": true, "escaped": true, "twoSlashes": true, "ipv6": true, "longest": true}
	for name, request := range requests {
		h, found := parseHead(request[:min(len(request), maxHead)])
		if (found == http1line.Plain) != plainOnes[name] {
			t.Errorf("%s: the verdict is %d", name, found)
		}
		if found == http1line.Plain && h.size != len(request) {
			t.Errorf("%s: the head has %d bytes, want %d", name, h.size, len(request))
		}
	}
}

// FuzzParseHead checks that net/http reads every plain head in the same way, and that the
// verdict does not depend on what follows the head.
func FuzzParseHead(f *testing.F) {
	for _, request := range requests {
		f.Add(request)
	}
	seen := make(chan *http.Request, 1)
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Clone(context.Background()) })}
	f.Cleanup(func() { _ = s.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	f.Fuzz(func(t *testing.T, text string) {
		h, found := parseHead(text)
		if found != http1line.Plain {
			return
		}
		if again, found := parseHead(text[:h.size]); found != http1line.Plain || !reflect.DeepEqual(filled(again), filled(h)) {
			t.Fatalf("alone, %q is %d", text[:h.size], found)
		}
		if _, found := parseHead(text[:h.size-1]); found != http1line.Incomplete {
			t.Fatalf("without its last byte, %q is %d", text[:h.size], found)
		}
		c := dial(t, l.Addr())
		defer c.Close()
		send(t, c, text[:h.size])
		var want *http.Request
		select {
		case want = <-seen:
		case <-time.After(patience):
			t.Fatalf("net/http does not serve %q", text[:h.size])
		}
		got := filled(h)
		if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Host != want.Host || !reflect.DeepEqual(got.URL, want.URL) ||
			!reflect.DeepEqual(got.Header, want.Header) || want.Close || want.ContentLength != 0 || want.Body != http.NoBody || len(want.TransferEncoding) > 0 {
			t.Fatalf("%q is read as\n%+v, want\n%+v", text, *got, *want)
		}
	})
}

// FuzzParseNextHead checks that what a connection keeps of a head does not change how the
// next one is read, and that nothing refers to the bytes of either.
func FuzzParseNextHead(f *testing.F) {
	for _, request := range requests {
		f.Add(get, request)
		f.Add(request, strings.Replace(request, "a", "b", 1))
		f.Add(strings.Replace(request, "\r\n", "\r\nX: y\r\n", 1), request)
	}
	f.Fuzz(func(t *testing.T, before, text string) {
		want, found := parseHead(text)
		h, first := parseHead("")
		for _, one := range []string{before, text} {
			input := []byte(one)
			first = h.parse(unsafe.String(unsafe.SliceData(input), len(input)))
			for i := range input {
				input[i] = 'x'
			}
		}
		if first != found || found == http1line.Plain && (h.size != want.size || !reflect.DeepEqual(filled(h), filled(want))) {
			t.Fatalf("after %q, %q is %d\n%+v, want %d\n%+v", before, text, first, filled(h), found, filled(want))
		}
	})
}
