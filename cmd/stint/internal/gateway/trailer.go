package gateway

import (
	"io"
	"net/http"
	"net/http/httputil"

	"golang.org/x/net/http/httpguts"
)

// passTrailers forwards the trailers that the request announced. The server fills in its
// trailers at the end of the body, after the request was copied, so they are copied again
// then.
func passTrailers(p *httputil.ProxyRequest) {
	p.Out.Trailer = announced(p.In.Trailer)
	if p.Out.Body != nil && len(p.Out.Trailer) > 0 {
		p.Out.ContentLength = -1 // HTTP/1.1 allows trailers only after a chunked body
		p.Out.Body = &trailedBody{ReadCloser: p.Out.Body, from: p.In.Trailer, to: p.Out.Trailer}
	}
}

// announced returns the trailers that may follow a body. Fields that identify the client
// are excluded, because some applications merge trailers into headers.
func announced(names http.Header) http.Header {
	passed := make(http.Header, len(names))
	for name := range names {
		if httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name) &&
			!isForwarded(name) && name != requestIDHeader {
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
