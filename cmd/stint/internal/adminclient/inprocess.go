package adminclient

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// InProcess is a transport to a handler of this process, for work on rules without a
// running server.
type InProcess struct{ Handler http.Handler }

// RoundTrip calls the handler.
func (p InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &kept{header: http.Header{}, status: http.StatusOK}
	r.RequestURI = r.URL.RequestURI()
	p.Handler.ServeHTTP(w, r)
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Header: w.header, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}, nil
}

// kept is a response in memory.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }
