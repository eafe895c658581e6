package main

import (
	"strings"
	"testing"

	"github.com/stintdev/stint/examples/internal/program"
	"github.com/stintdev/stint/internal/redistest"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestProcessesCountTogether(t *testing.T) {
	redis := redistest.Server(t)
	outputs := ""
	for range 6 {
		outputs += program.Run(t, "REDIS=redis://"+redis.Addr())
	}
	// A call that Redis answers too late on a busy machine is decided by the node alone.
	degraded := strings.Count(outputs, "degraded=true")
	if allowed := strings.Count(outputs, "allowed=true") - degraded; allowed > 1001 || allowed+degraded < 900 || degraded > 20 {
		t.Errorf("%d of 1200 requests were allowed by Redis, and %d decided without it", allowed, degraded)
	}
}

func TestRequestsPassWithoutRedis(t *testing.T) {
	output := program.Run(t, "REDIS=redis://localhost:1")
	if degraded := strings.Count(output, "degraded=true"); degraded != 200 || strings.Contains(output, "allowed=false") {
		t.Errorf("%d of 200 decisions were made without Redis:\n%s", degraded, output)
	}
}
