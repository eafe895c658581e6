package otlpexport

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint/internal/testserver"
)

// What a collector does not take at the end is logged with its number, and does not keep the
// process for longer than the bound. The collector is dead, or takes connections and never
// answers.
func TestTheEndSaysWhatWasNotSent(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hanging.Close() })
	dead := testserver.FreeAddr(t)
	for name, url := range map[string]string{
		"dead http": "http://" + dead, "dead grpc": "grpc://" + dead,
		"hanging http": "http://" + hanging.Addr().String(), "hanging grpc": "grpc://" + hanging.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer // an export that is cut off logs later
			e, err := Open(Options{URL: url, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			for range 7 {
				_, span := e.provider.Tracer(scope).Start(t.Context(), "a request")
				span.End()
			}
			ended, end := context.WithCancel(t.Context())
			end()
			began := time.Now()
			e.Run(ended, prometheus.NewRegistry())
			if took := time.Since(began); took > endTime+10*time.Second {
				t.Errorf("the end took %v", took)
			}
			if !strings.Contains(log.String(), `the last spans were not sent" spans=7`) {
				t.Error(log.String())
			}
		})
	}
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
