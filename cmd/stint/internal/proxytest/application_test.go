//go:build linux

package proxytest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// application is the server behind a proxy. It answers with the request that it
// received.
type application struct {
	*httptest.Server

	reached atomic.Int64  // requests that reached the application
	next    chan struct{} // a receive: the client has an event
}

// received describes a request that the application received.
type received struct {
	Method, URI, Host, Sum string
	Length                 int64
	Header                 http.Header
}

func newApplication(t *testing.T) *application {
	t.Helper()
	a := &application{next: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(a.answer))
	t.Cleanup(a.Close)
	return a
}

func (a *application) addr() string { return a.Listener.Addr().String() }

func (a *application) answer(w http.ResponseWriter, r *http.Request) {
	a.reached.Add(1)
	if r.Header.Get("Upgrade") == "websocket" {
		echo(w, r.Header.Get("Sec-WebSocket-Key"))
		return
	}
	if r.URL.Path == "/events" {
		a.events(w, r)
		return
	}
	sum := sha256.New()
	n, _ := io.Copy(sum, r.Body)
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(received{r.Method, r.RequestURI, r.Host, hex.EncodeToString(sum.Sum(nil)), n, r.Header}); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// events sends three events, each after the client has received the last one.
func (a *application) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 3 {
		if _, err := fmt.Fprintf(w, "data: %d\n", i); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-a.next:
		case <-r.Context().Done():
			return
		}
	}
}

// echo switches protocols and echoes the bytes that arrive.
func echo(w http.ResponseWriter, key string) {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455, section 4.2.2
	accept := base64.StdEncoding.EncodeToString(sum[:])
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+accept+"\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}
