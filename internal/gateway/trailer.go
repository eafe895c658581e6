package gateway

import (
	"io"
	"net/http"
	"net/http/httputil"

	"golang.org/x/net/http/httpguts"
)

// passTrailers lets the trailers that the request announced follow its body.
// The server fills in theirs when the body has been read to its end, after
// the request was copied, so that they are copied once more then.
func passTrailers(p *httputil.ProxyRequest) {
	p.Out.Trailer = announced(p.In.Trailer)
	if p.Out.Body != nil && len(p.Out.Trailer) > 0 {
		p.Out.ContentLength = -1 // HTTP/1.1 has trailers after chunks alone
		p.Out.Body = &trailedBody{ReadCloser: p.Out.Body, from: p.In.Trailer, to: p.Out.Trailer}
	}
}

// announced returns the names that may follow a body. An application that
// merges trailers into headers must not be told there who the client is.
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

// Read copies the trailers before it reports the end. The transport reads
// them after that, in the same goroutine.
func (b *trailedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		for name := range b.to {
			b.to[name] = b.from[name]
		}
	}
	return n, err
}
