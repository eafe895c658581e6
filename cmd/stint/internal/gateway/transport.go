package gateway

import (
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	idleTimeout       = 90 * time.Second
	pingAfter         = 30 * time.Second // of silence on an HTTP/2 connection
	pingTimeout       = 15 * time.Second
	expectTimeout     = time.Second
	maxResponseHeader = 1 << 20 // bytes
	bufferSize        = 32 << 10
)

// transports are the connections to upstreams, by protocol.
type transports struct {
	standard *http.Transport // HTTP/1.1, and HTTP/2 where TLS agrees on it
	http2    *http.Transport // HTTP/2 without TLS
}

func newTransports(o *Options) transports {
	var h1, h2c http.Protocols
	h1.SetHTTP1(true)
	h1.SetHTTP2(true)
	h2c.SetUnencryptedHTTP2(true)
	return transports{standard: newTransport(o, &h1), http2: newTransport(o, &h2c)}
}

func newTransport(o *Options, protocols *http.Protocols) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: o.DialTimeout}).DialContext,
		TLSClientConfig:        o.TLS.Clone(),
		TLSHandshakeTimeout:    o.TLSHandshakeTimeout,
		ResponseHeaderTimeout:  o.ResponseHeaderTimeout,
		ExpectContinueTimeout:  expectTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    o.MaxIdlePerUpstream,
		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true, // what to accept is between client and upstream
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// of returns the transport for a request. HTTP/2 has no Upgrade, so that a
// WebSocket goes to an h2c upstream by HTTP/1.1.
func (t *transports) of(u *upstream, r *http.Request) *http.Transport {
	if u.http2 && r.Header.Get("Upgrade") == "" {
		return t.http2
	}
	return t.standard
}

func (t *transports) closeIdle() {
	t.standard.CloseIdleConnections()
	t.http2.CloseIdleConnections()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// buffers lends the memory that bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }

// debugLog takes what the reverse proxy says of answers that broke off.
func debugLog(l *slog.Logger) *log.Logger {
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}
