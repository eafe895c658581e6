package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// The first attempt of the first call fails, and its retry succeeds.
func TestFailuresAreRetried(t *testing.T) {
	var attempts, deadlines atomic.Int64
	orders := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Deadline-Ms") != "" {
			deadlines.Add(1)
		}
		if attempts.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "an order")
	}))
	defer orders.Close()

	output := program.Run(t, "ORDERS="+orders.URL)
	if n := strings.Count(output, "200 OK an order"); n != 5 {
		t.Errorf("%d of 5 calls succeeded:\n%s", n, output)
	}
	if attempts.Load() != 6 || deadlines.Load() != 6 {
		t.Errorf("%d attempts, %d with a deadline, want 6", attempts.Load(), deadlines.Load())
	}
}

func TestFailingServiceIsReported(t *testing.T) {
	output := program.Run(t, "ORDERS=http://localhost:1")
	if n := strings.Count(output, "connection refused"); n != 5 {
		t.Errorf("%d of 5 calls failed as expected:\n%s", n, output)
	}
}
