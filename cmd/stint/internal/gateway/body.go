package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
)

// lentBody is the body of a request while the handler runs. A transport may read it later,
// when the server of net/http no longer allows it.
type lentBody struct {
	io.Reader

	returned atomic.Bool
}

var errBodyReturned = errors.New("the request has ended")

func (b *lentBody) Read(p []byte) (int, error) {
	if b.returned.Load() {
		return 0, errBodyReturned
	}
	return b.Reader.Read(p)
}

// Close leaves the server's body open: closing it would read the rest, for which a client
// may take any time.
func (b *lentBody) Close() error {
	b.returned.Store(true)
	return nil
}

// upload is the body of an HTTP/1.1 request. It records how reading it ended.
type upload struct {
	io.ReadCloser
	ended atomic.Bool
	slow  atomic.Bool // the read failed with ErrSlowClient
	bad   atomic.Bool // the client sent a malformed body
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err == io.EOF {
		u.ended.Store(true)
	}
	if errors.Is(err, ErrSlowClient) {
		u.slow.Store(true)
	}
	if isMalformed(err) {
		u.bad.Store(true)
	}
	return n, err
}

// isMalformed reports whether reading a body failed for a reason other than its end, the
// connection or a bound. The errors of net/http for a malformed chunk have no type.
func isMalformed(err error) bool {
	var network net.Error
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrSlowClient),
		errors.Is(err, http.ErrBodyReadAfterClose), errors.Is(err, net.ErrClosed):
		return false
	}
	return !errors.As(err, &network) && !errors.As(err, &tooLarge)
}

// clientStopped reports whether an exchange failed because of its client. The server of
// net/http then cancels the request's context, which may be all that the error shows.
func (x *exchange) clientStopped(err error) bool {
	return errors.Is(err, ErrSlowClient) || x.body != nil && x.body.slow.Load()
}

// malformed reports whether the client sent a malformed body. A nil upload was not
// watched.
func (u *upload) malformed() bool { return u != nil && u.bad.Load() }

func (x *exchange) watch(r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		x.body = &upload{ReadCloser: r.Body}
		r.Body = x.body
	}
}

// answerEarly lets a response begin while the body still arrives. Without this, an HTTP/1.1
// server discards up to 256 KiB of the body before it writes the header, and the upstream misses
// that part.
//
// The connection is not reused: the server of net/http panics on its next request if a body that
// is read beside its response ends after the handler.
func (x *exchange) answerEarly() {
	if x.body == nil || x.body.ended.Load() {
		return
	}
	if http.NewResponseController(x.w).EnableFullDuplex() == nil {
		x.w.Header().Set("Connection", "close")
	}
}

// passTrailers forwards the trailers that the request announced. The server fills in its
// trailers at the end of the body, after the request was copied, so they are copied again
// then.
func (g *Gateway) passTrailers(p *httputil.ProxyRequest) {
	if len(p.In.Trailer) == 0 {
		p.Out.Trailer = nil
		return
	}
	p.Out.Trailer = g.announced(p.In.Trailer)
	if p.Out.Body != nil && len(p.Out.Trailer) > 0 {
		p.Out.ContentLength = -1 // HTTP/1.1 allows trailers only after a chunked body
		p.Out.Body = &trailedBody{ReadCloser: p.Out.Body, from: p.In.Trailer, to: p.Out.Trailer}
	}
}

// announced returns the trailers that may follow a body. The fields that no route may
// change, such as those that identify the client, are excluded: some applications merge
// trailers into headers, which the rules have not seen.
func (g *Gateway) announced(names http.Header) http.Header {
	passed := make(http.Header, len(names))
	for name := range names {
		identifies := g.options.Identifies(http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")))
		if httpguts.ValidTrailerHeader(name) && checkField(name) == nil && !identifies {
			passed[name] = nil
		}
	}
	return passed
}

type trailedBody struct {
	io.ReadCloser
	from, to http.Header
}

// Read copies the trailers before it returns io.EOF. The transport reads them afterwards,
// in the same goroutine.
func (b *trailedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		for name := range b.to {
			b.to[name] = b.from[name]
		}
	}
	return n, err
}
