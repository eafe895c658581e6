package client

import (
	"io"
	"net/http"
	"sync"
)

// atEnd has a function called once, when the response has been read to its
// end or closed, or at once where there is none.
func atEnd(resp *http.Response, err error, end func()) (*http.Response, error) {
	if err != nil || resp.Body == nil {
		end()
		return resp, err
	}
	b := body{resp.Body, sync.OnceFunc(end)}
	resp.Body = &b
	if w, ok := b.ReadCloser.(io.Writer); ok { // a connection that changed its protocol
		resp.Body = &tunnel{b, w}
	}
	return resp, nil
}

type body struct {
	io.ReadCloser

	end func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

type tunnel struct {
	body
	io.Writer
}
