package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
)

// upload is the body of an HTTP/1.1 request, which knows whether it has been
// read to its end.
type upload struct {
	io.ReadCloser
	ended atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err == io.EOF {
		u.ended.Store(true)
	}
	return n, err
}

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
