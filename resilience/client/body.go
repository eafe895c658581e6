package client

import (
	"io"
	"net/http"
	"sync"
)

// atEnd has a function called once, when the response has been read to its
// end or closed, or at once where there is none. A nil function is not called.
func atEnd(resp *http.Response, err error, end func()) (*http.Response, error) {
	if end == nil {
		return resp, err
	}
	if err != nil || resp.Body == nil {
		end()
		return resp, err
	}
	b := &body{ReadCloser: resp.Body, end: end}
	resp.Body = b
	if w, ok := b.ReadCloser.(io.Writer); ok { // a connection that changed its protocol
		resp.Body = &tunnel{b, w}
	}
	return resp, nil
}

type body struct {
	io.ReadCloser

	end  func()
	once sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(b.end)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.once.Do(b.end)
	return b.ReadCloser.Close()
}

type tunnel struct {
	*body
	io.Writer
}
