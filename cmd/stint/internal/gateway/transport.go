package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/http1client"
)

const (
	pingAfter         = 30 * time.Second // time of silence on an HTTP/2 connection before a ping
	pingTimeout       = 15 * time.Second
	expectTimeout     = time.Second
	maxResponseHeader = 1 << 20 // bytes
	bufferSize        = 32 << 10
)

// transports holds one transport for each protocol of upstreams, and one for the requests
// that are cheaper to send without http.Transport.
type transports struct {
	plain    *http1client.Transport
	standard *http.Transport // HTTP/1.1, and HTTP/2 if TLS negotiates it
	http2    *http.Transport // HTTP/2 without TLS
}

func newTransports(o *GroupOptions) *transports {
	var h1, h2c http.Protocols
	h1.SetHTTP1(true)
	h1.SetHTTP2(true)
	h2c.SetUnencryptedHTTP2(true)
	return &transports{plain: newPlain(o), standard: newTransport(o, &h1), http2: newTransport(o, &h2c)}
}

func newPlain(o *GroupOptions) *http1client.Transport {
	return http1client.New(http1client.Options{
		Dial:                  dialer(o),
		ResponseHeaderTimeout: o.ResponseHeaderTimeout,
		MaxResponseHeader:     maxResponseHeader,
		MaxIdlePerHost:        o.MaxIdlePerUpstream,
		IdleTimeout:           o.IdleTimeout,
		Informational:         func(r *http.Request, status int, h http.Header) { exchangeOf(r).inform(status, h) },
	})
}

func dialer(o *GroupOptions) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: o.DialTimeout}).DialContext
}

func newTransport(o *GroupOptions, protocols *http.Protocols) *http.Transport {
	return &http.Transport{
		DialContext:            dialer(o),
		TLSClientConfig:        o.clientTLS(),
		TLSHandshakeTimeout:    o.TLSHandshakeTimeout,
		ResponseHeaderTimeout:  o.ResponseHeaderTimeout,
		ExpectContinueTimeout:  expectTimeout,
		IdleConnTimeout:        o.IdleTimeout,
		MaxIdleConnsPerHost:    o.MaxIdlePerUpstream,
		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true, // the client and the upstream negotiate compression
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// clientTLS returns the TLS configuration of new connections.
func (o *GroupOptions) clientTLS() *tls.Config {
	base := o.TLS.Clone()
	if base == nil && o.Files != nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o.Files.Config(base)
}

func (t *transports) closeIdle() {
	t.plain.CloseIdleConnections()
	t.standard.CloseIdleConnections()
	t.http2.CloseIdleConnections()
}

// of returns the transport for a request to an upstream, with the upstream's URL. HTTP/2
// has no Upgrade, so WebSocket requests to an h2c upstream use HTTP/1.1.
func (t *transports) of(u *upstream, r *http.Request) http.RoundTripper {
	switch {
	case u.http2 && r.Header.Get("Upgrade") == "":
		return t.http2
	case http1client.Supports(r):
		return t.plain
	default:
		return t.standard
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// buffers is the pool of the buffers through which bodies are copied.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
