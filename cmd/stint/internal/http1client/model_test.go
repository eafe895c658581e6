package http1client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain drops the standard log, in which the model reports bytes after a response.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	m.Run()
}

// wire is a server for one connection: it reads a request, sends fixed bytes, and closes
// the connection.
type wire struct {
	response []byte
	request  chan []byte // what it has read
}

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	w.request = make(chan []byte, 1)
	go func() {
		defer server.Close()
		var read []byte
		for reader := bufio.NewReader(server); !bytes.HasSuffix(read, []byte("\r\n\r\n")); {
			b, err := reader.ReadByte()
			if err != nil {
				break
			}
			read = append(read, b)
		}
		w.request <- read
		_, _ = server.Write(w.response)
	}()
	return client, nil
}

const headerBound = 4 << 10

func newTestTransport(dial func(context.Context, string, string) (net.Conn, error)) *Transport {
	return New(Options{Dial: dial, ResponseHeaderTimeout: time.Minute, MaxResponseHeader: headerBound, MaxIdlePerHost: 8, IdleTimeout: time.Minute})
}

// newModel returns the transport of the standard library with the same options.
func newModel(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{DialContext: dial, ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: headerBound, MaxIdleConnsPerHost: 8, DisableCompression: true}
}

// seen is what a caller sees of a response.
type seen struct {
	Status             int
	Proto              string
	Length             int64
	Close              bool
	Header, Trailer    http.Header
	Informed           []string
	Body               string
	Failed, BodyFailed bool
}

// ask sends a request and reads the response to its end.
func ask(t *testing.T, wire http.RoundTripper, informed *[]string, r *http.Request) (s seen) {
	t.Helper()
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			*informed = append(*informed, fmt.Sprint(status, http.Header(h)))
			return nil
		},
	}))
	res, err := wire.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		_ = res.Body.Close()
		err = errors.New("the callers of the model refuse the switch themselves")
	}
	if err != nil {
		return seen{Failed: true}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return seen{
		Status: res.StatusCode, Proto: res.Proto, Length: res.ContentLength, Close: res.Close, Header: res.Header, Trailer: res.Trailer,
		Informed: *informed, Body: string(body), BodyFailed: err != nil,
	}
}

// compare sends a request to a server that answers with fixed bytes, by the transport and
// by its model.
func compare(t *testing.T, method string, response []byte) seen {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://server/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{response: response}
	var informed, expected []string
	ours := newTestTransport(w.dial)
	ours.options.Informational = func(_ *http.Request, status int, h http.Header) {
		informed = append(informed, fmt.Sprint(status, h))
	}
	got, model := ask(t, ours, &informed, r), newModel(w.dial)
	defer ours.CloseIdleConnections()
	defer model.CloseIdleConnections()
	if want := ask(t, model, &expected, r); !reflect.DeepEqual(got, want) {
		t.Errorf("%s answered by %q:\ngot  %+v\nwant %+v", method, response, got, want)
	}
	return got
}

// responses are responses of every form, well formed or not.
var responses = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2;x=y\r\nok\r\n0\r\nX-Sum: 7\r\nX-Other: 8\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokok\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
	"HTTP/1.1 200 OK\r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\nEtag: \"x\"\r\n\r\n",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </y>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 103 Early Hints\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nok",
	"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 099 Low\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 20 OK\r\n\r\n",
	"HTTP/2.0 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
	"HTTP/1.1 200 OK\r\n: a\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
	"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", headerBound) + "\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 8192\r\n\r\n" + strings.Repeat("a", 2*headerBound),
	"\r\nHTTP/1.1 200 OK\r\n\r\n",
	"nonsense",
	"",
}

func TestResponsesAreReadAsByTheStandardLibrary(t *testing.T) {
	for _, response := range responses {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			compare(t, method, []byte(response))
		}
	}
	if got := compare(t, http.MethodGet, []byte(responses[0])); got.Body != "ok" || got.Status != http.StatusOK {
		t.Errorf("got %+v", got)
	}
}

func FuzzResponse(f *testing.F) {
	for _, response := range responses {
		f.Add(false, []byte(response))
		f.Add(true, []byte(response))
	}
	f.Fuzz(func(t *testing.T, head bool, response []byte) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		compare(t, method, response)
	})
}

// sent returns the request that a server receives, read by the standard library.
func sent(t *testing.T, transport func(w *wire) http.RoundTripper, r *http.Request) *http.Request {
	t.Helper()
	w := &wire{response: []byte(responses[0])}
	res, err := transport(w).RoundTrip(r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	_ = res.Body.Close()
	raw := <-w.request
	got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return got
}

// compareRequest reports whether the transport supports the request. If so, it must send
// what its model sends.
func compareRequest(t *testing.T, r *http.Request) bool {
	t.Helper()
	if !Supports(r) {
		return false
	}
	got := sent(t, func(w *wire) http.RoundTripper { return newTestTransport(w.dial) }, r)
	want := sent(t, func(w *wire) http.RoundTripper {
		m := newModel(w.dial)
		t.Cleanup(m.CloseIdleConnections)
		return m
	}, r)
	if got.Method != want.Method || got.RequestURI != want.RequestURI || got.Host != want.Host || got.Proto != want.Proto ||
		got.ContentLength != want.ContentLength || got.Close != want.Close || !maps.EqualFunc(got.Header, want.Header, slices.Equal) {
		t.Errorf("%+v:\ngot  %+v\nwant %+v", r, got, want)
	}
	return true
}

func TestRequestsAreSentAsByTheStandardLibrary(t *testing.T) {
	for target, supported := range map[string]bool{
		"http://server/a%2Fb//c?q=1&q=%20": true, "http://server": true, "http://server:8080/": true, "http://[::1]:8080/?": true,
		"https://server/": false, "http://bücher/": false, "http://[fe80::1%25eth0]/": false,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"User-Agent": {""}, "X-Several": {"1", " 2 "}, "Cookie": {"a=b"}, "Te": {"trailers"}}
		if got := compareRequest(t, r); got != supported {
			t.Errorf("%s: supported is %v; want %v", target, got, supported)
		}
	}
}

func TestRequestsThatNeedMoreAreNotSupported(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"method":            func(r *http.Request) { r.Method = http.MethodPost },
		"method in lower":   func(r *http.Request) { r.Method = "get" },
		"body":              func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("x")) },
		"length":            func(r *http.Request) { r.ContentLength = 1 },
		"transfer encoding": func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
		"trailer":           func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} },
		"close":             func(r *http.Request) { r.Close = true },
		"scheme":            func(r *http.Request) { r.URL.Scheme = "https" },
		"empty host":        func(r *http.Request) { r.Host, r.URL.Host = "", "" },
		"host with a break": func(r *http.Request) { r.Host = "a\r\nX: y" },
		"opaque target":     func(r *http.Request) { r.URL.Opaque = "x\r\n" },
		"query with break":  func(r *http.Request) { r.URL.RawQuery = "a=b HTTP/1.1\r\nX: y" },
		"name with a break": func(r *http.Request) { r.Header["X\r\nY"] = []string{"z"} },
		"value with break":  func(r *http.Request) { r.Header["X"] = []string{"a\r\nY: z"} },
		"several agents":    func(r *http.Request) { r.Header["User-Agent"] = []string{"a", "b"} },
		"Connection":        func(r *http.Request) { r.Header.Set("Connection", "Upgrade") },
		"Upgrade":           func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"Expect":            func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"Content-Length":    func(r *http.Request) { r.Header.Set("Content-Length", "5") },
		"Transfer-Encoding": func(r *http.Request) { r.Header.Set("Transfer-Encoding", "chunked") },
		"Host":              func(r *http.Request) { r.Header.Set("Host", "other") },
	} {
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "server", Path: "/"}, Header: http.Header{}}
		if !Supports(r) {
			t.Fatal("the request without a change is not supported")
		}
		if change(r); Supports(r) {
			t.Errorf("%s: it is supported", name)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("GET", "server", "/a%2Fb", "q=1", "X-Name", "value")
	f.Add("HEAD", "[::1]:80", "//a/../b", "%", "user-agent", " padded\t")
	f.Add("TRACE", "a.b:1", "/*", "", "Te", "trailers")
	f.Add("OPTIONS", "a", "*", "a b", "Content-length", "0")
	f.Fuzz(func(t *testing.T, method, host, path, query, name, value string) {
		r := &http.Request{
			Method: method, Host: host, URL: &url.URL{Scheme: "http", Host: "server", Path: path, RawQuery: query},
			Header: http.Header{"User-Agent": {""}, http.CanonicalHeaderKey(name): {value, "second"}},
		}
		compareRequest(t, r.WithContext(t.Context()))
	})
}

// FuzzNextPlainResponse checks that what a connection and a room keep of a response does not
// change how the next one is read, and that a response does not refer to the buffer it was
// read from.
func FuzzNextPlainResponse(f *testing.F) {
	for _, response := range responses {
		f.Add("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: x\r\n\r\nok", response)
		f.Add(response, strings.Replace(response, "200", "201", 1))
	}
	alone := &http.Request{Method: http.MethodGet}
	f.Fuzz(func(t *testing.T, before, text string) {
		from, known, room := bufio.NewReader(nil), &heads{}, &Room{}
		inRoom := alone.WithContext(context.WithValue(context.Background(), RoomKey{}, room))
		read := func(known *heads, r *http.Request, text string) *received {
			from.Reset(strings.NewReader(text))
			_, _ = from.Peek(1)
			return plainResponse(from, known, r)
		}
		want := describe(read(&heads{}, alone, text))
		read(known, inRoom, before)
		room.Release()
		res := read(known, inRoom, text)
		from.Reset(strings.NewReader(strings.Repeat("x", from.Size())))
		_, _ = from.Peek(1)
		if got := describe(res); got != want {
			t.Errorf("after %q, %q is read as\n%s, want\n%s", before, text, got, want)
		}
	})
}

// describe returns a plain response but for its body as a text; "" if it is not plain.
func describe(res *received) string {
	if res == nil {
		return ""
	}
	return fmt.Sprint(res.Status, res.StatusCode, res.ContentLength, res.Header)
}
