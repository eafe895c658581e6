package client

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// atEnd calls end once, when the response has been read to its end or closed, or at once
// if there is no body. end may be nil.
func atEnd(resp *http.Response, err error, end func()) (*http.Response, error) {
	if end == nil {
		return resp, err
	}
	if !hasBody(resp, err) {
		end()
		return resp, err
	}
	b := &body{ReadCloser: resp.Body, end: end}
	resp.Body = b
	if w, ok := b.ReadCloser.(io.Writer); ok { // a connection that has changed its protocol
		resp.Body = &tunnel{b, w}
	}
	return resp, nil
}

// hasBody reports whether there is a body to read or close. An empty body does not count:
// many callers leave one open, which does no harm.
func hasBody(resp *http.Response, err error) bool {
	return err == nil && resp.Body != nil && resp.Body != http.NoBody
}

// untilOver calls end when the response has been read or closed, or when its context
// ends. The end of the context also ends the connection, unless the connection has
// changed its protocol.
func untilOver(ctx context.Context, resp *http.Response, err error, end func()) (*http.Response, error) {
	if end == nil || !hasBody(resp, err) || resp.StatusCode == http.StatusSwitchingProtocols {
		return atEnd(resp, err, end)
	}
	stop := context.AfterFunc(ctx, end)
	return atEnd(resp, err, func() { stop(); end() })
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
