package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// applicationWork is what -here calls the application behind a proxy.
const applicationWork = "application"

// serveApplication answers each request at once, until the process is ended.
func serveApplication() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.Info("listening", "name", "http", "addr", l.Addr().String())
	log.Info("ready")
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})}
	return s.Serve(l)
}
