package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// upload is the body of an HTTP/1.1 request, which knows how its reading
// ended.
type upload struct {
	io.ReadCloser
	ended atomic.Bool
	slow  atomic.Bool // ErrSlowClient
	bad   atomic.Bool // what came is no body
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

// isMalformed reports whether reading a body failed with neither its end, nor
// the connection, nor a bound. What net/http says of a wrong chunk has no type.
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

// clientStopped reports whether an exchange failed because its client did. The
// server of net/http ends the request's context then, which may be all that
// the error says.
func (x *exchange) clientStopped(err error) bool {
	return errors.Is(err, ErrSlowClient) || x.body != nil && x.body.slow.Load()
}

// malformed reports whether what the client sent was no body; a nil upload is
// none that was watched.
func (u *upload) malformed() bool { return u != nil && u.bad.Load() }

func (x *exchange) watch(r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		x.body = &upload{ReadCloser: r.Body}
		r.Body = x.body
	}
}

// answerEarly lets an answer begin while the body is still on its way. An
// HTTP/1.1 server swallows up to 256 KiB of the body else, before it writes
// the header, and the upstream would miss that part.
//
// The connection is not used again: the server of net/http panics on its next
// request if a body that runs beside its answer ends after the handler.
func (x *exchange) answerEarly() {
	if x.body == nil || x.body.ended.Load() {
		return
	}
	if http.NewResponseController(x.w).EnableFullDuplex() == nil {
		x.w.Header().Set("Connection", "close")
	}
}
