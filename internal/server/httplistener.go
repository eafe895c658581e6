package server

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of every HTTP listener.
const (
	maxHeaderBytes = 32 << 10        // more is answered with 431
	idleTimeout    = 2 * time.Minute // of a kept connection
	answerTime     = 10 * time.Second
)

// httpListener serves HTTP/1.1 and HTTP/2, the latter also without TLS.
type httpListener struct {
	*http.Server
	cut context.CancelFunc // ends the context of every request
}

// newHTTPListener returns a listener that gives a request the time read to
// arrive, and the time write from the end of its headers to be answered. Zero
// is no bound.
func (s *Server) newHTTPListener(handler http.Handler, read, write time.Duration) *httpListener {
	base, cut := context.WithCancel(context.Background())
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		ReadTimeout:       read,
		WriteTimeout:      write,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         new(http.Protocols),
		ErrorLog:          log.New(serverLog{s.log}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	if s.certs != nil {
		server.TLSConfig = s.certs.config()
	}
	return &httpListener{server, cut}
}

func (h *httpListener) serve(l net.Listener) error {
	var err error
	if h.TLSConfig != nil {
		err = h.ServeTLS(l, "", "")
	} else {
		err = h.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ready does nothing: the handlers know.
func (h *httpListener) ready() {}

// unready tells clients to come back by another connection.
func (h *httpListener) unready() { h.SetKeepAlivesEnabled(false) }

// drain stops accepting and waits for the requests in flight.
func (h *httpListener) drain(ctx context.Context) error { return h.Shutdown(ctx) }

// stop cuts what is still open, upgraded connections too.
func (h *httpListener) stop() {
	h.cut()
	_ = h.Close() // only reports that a listener was closed before
}

// serverLog takes what net/http has to say. Most of it is about clients that
// break the protocol, which anyone can do as often as they like.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.Contains(p, []byte("panic serving")) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(p)))
	return len(p), nil
}
