//go:build linux

package proxytest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// fields are the header fields of an HTTP/2 request in the order in which they are
// sent, with names and values in turn.
type fields []string

// request2 returns the fields of a request for / with further fields. A given value
// replaces the pseudo-header of that name.
func request2(more ...string) fields {
	all := fields{":method", "GET", ":scheme", "http", ":authority", "app.example", ":path", "/"}
	for i := 0; i < len(more); i += 2 {
		replaced := false
		for j := 0; j < 8 && strings.HasPrefix(more[i], ":"); j += 2 {
			if all[j] == more[i] {
				all[j+1], replaced = more[i+1], true
			}
		}
		if !replaced {
			all = append(all, more[i], more[i+1])
		}
	}
	return all
}

// hostileFields are the hostileRequests of HTTP/2.
func hostileFields() (all []fields) {
	for c := range 256 {
		odd := string([]byte{'a', byte(c), 'b'})
		all = append(all, request2("x-odd", odd), request2(odd, "a"), request2(":path", "/"+odd))
	}
	for _, more := range [][]string{
		{":method", "get"}, {":method", "G T"}, {":method", "PRI"}, {":method", "TRACE"}, {":method", "CONNECT"}, {":method", ""}, {":method", "GE\x01T"}, {":method", strings.Repeat("X", 7000)},
		{":path", ""}, {":path", "*"}, {":path", "x"}, {":path", "?deny_status=418"}, {":path", "/?deny_status=418"}, {":path", "http://other.example/"}, {":path", "//other.example/"},
		{":scheme", "ftp"}, {":scheme", ""}, {":authority", ""}, {":authority", "a b"}, {":authority", "a/b"}, {":authority", "other.example", "host", "app.example"},
		{"host", "other.example"}, {"X-Upper", "a"}, {"connection", "x-original-uri"}, {"transfer-encoding", "chunked"}, {"te", "x"}, {"content-length", "5"}, {"content-length", "x"},
		{":odd", "a"}, {"x-forwarded-for", "203.0.113.7"}, {"x-original-uri", "/\x01"}, {"cookie", "a=b", "cookie", "c=\x01"}, {"", "a"},
	} {
		all = append(all, request2(more...))
	}
	for length := 14_800; length <= 15_600; length += 8 {
		all = append(all, request2("x-filler", strings.Repeat("x", length)), request2(":path", "/"+strings.Repeat("x", length)))
	}
	for _, many := range slices.Concat(aboutHundred(), []int{400, 800, 1_000, 2_000}) {
		var more []string
		for i := range many {
			more = append(more, "x"+strconv.Itoa(i), "")
		}
		all = append(all, request2(more...))
	}
	return all
}

// TestNoRequestByHTTP2EscapesItsLimit is TestNoRequestEscapesItsLimit for the proxies
// whose files allow HTTP/2 without TLS.
func TestNoRequestByHTTP2EscapesItsLimit(t *testing.T) {
	t.Parallel()
	all := hostileFields()
	requests := make([]hostileRequest, len(all))
	for i, f := range all {
		requests[i] = hostileRequest{fmt.Sprintf("%d: %.80q", i, f), encoded(t, f)}
	}
	for _, p := range proxies {
		if !p.http2 {
			continue
		}
		if p.pinned == "envoy" { // without this, each malformed request takes a second
			p.own = append(slices.Clone(p.own), "stat_prefix: web\n", "stat_prefix: web\n                delayed_close_timeout: 0.01s\n")
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSiteWith(t, &p, patient, everyRequest)
			c := s.exhausted(t)
			denied := s.wantNonePasses(t, requests, func(r hostileRequest) int { return c.status2(r.text) })
			if denied < len(requests)/4 {
				t.Errorf("Stint decided %d of %d: the others test nothing of it", denied, len(requests))
			}
		})
	}
}

// encoded returns the bytes of a connection with one request.
func encoded(t *testing.T, f fields) string {
	t.Helper()
	var block, text bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(f); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[i], Value: f[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	text.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&text, nil)
	_ = framer.WriteSettings() // the frame is written into memory
	first := block.Next(16 << 10)
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true, EndHeaders: block.Len() == 0})
	for block.Len() > 0 {
		part := block.Next(16 << 10)
		_ = framer.WriteContinuation(1, block.Len() == 0, part)
	}
	return text.String()
}

// status2 is status for HTTP/2. It returns 0 if the stream or the connection ends
// without an answer.
func (c *client) status2(text string) int {
	c.t.Helper()
	conn, err := c.http.Transport.(*http.Transport).DialContext(c.t.Context(), "tcp", "")
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(conn, text) }() // fails if the proxy stops reading
	framer := http2.NewFramer(io.Discard, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			status, _ := strconv.Atoi(f.PseudoValue("status"))
			return status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0
		}
	}
}
