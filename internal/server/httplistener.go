package server

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Bounds of every HTTP listener.
const (
	maxHeaderBytes = 32 << 10 // more is answered with 431
	answerTime     = 10 * time.Second
)

// httpListener serves HTTP/1.1 and HTTP/2, the latter also without TLS.
type httpListener struct {
	*http.Server
	stream  time.Duration      // bounds each part of an answer that has no bound as a whole
	cut     context.CancelFunc // ends the context of every request
	room    *headerRoom        // nil: large headers are not read at all
	leaving atomic.Bool        // unready: every answer is the last of its connection
}

// newHTTPListener returns a listener that gives a request the time read to
// arrive, and the time write from the end of its headers to be answered. Zero
// is no bound; then each part of an answer has one.
func (s *Server) newHTTPListener(handler http.Handler, read, write time.Duration) *httpListener {
	base, cut := context.WithCancel(context.Background())
	if write == 0 {
		handler = toReaders(s.config.StreamTimeout, handler)
	}
	h := &httpListener{stream: s.config.StreamTimeout, cut: cut}
	h.Server = &http.Server{
		Handler:           h.closing(handler),
		ReadHeaderTimeout: s.config.HeaderTimeout,
		ReadTimeout:       read,
		WriteTimeout:      write,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         new(http.Protocols),
		ErrorLog:          log.New(serverLog{s.log}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	if s.certs != nil {
		h.TLSConfig = s.certs.config()
	}
	return h
}

// closing asks clients to come back by another connection, once the listener
// is unready. Idle connections stay open until it drains: on any of them a
// request may be on its way, which SetKeepAlivesEnabled would cut.
func (h *httpListener) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.leaving.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

func (h *httpListener) serve(l net.Listener) error {
	if h.WriteTimeout == 0 {
		l = &readers{l, h.stream}
	}
	if h.room != nil {
		l = &roomListener{l, h.room}
	}
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
func (h *httpListener) unready() { h.leaving.Store(true) }

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
