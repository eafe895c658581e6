package deadline

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// writer records whether the response has begun. It implements http.Flusher,
// http.Hijacker and io.ReaderFrom, and Unwrap for http.ResponseController.
type writer struct {
	http.ResponseWriter
	begun bool
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	w.begun = w.begun || status >= 200 || status == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.begun = w.begun || n > 0
	return n, err
}

// Flush serves callers that do not use [http.ResponseController].
func (w *writer) Flush() { _ = w.FlushError() }

func (w *writer) FlushError() error {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.begun = w.begun || err == nil
	return conn, buffered, err
}
