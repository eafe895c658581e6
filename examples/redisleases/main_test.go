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
	if allowed := strings.Count(outputs, "allowed=true"); allowed > 1001 || allowed < 900 {
		t.Errorf("%d of 1200 requests were allowed", allowed)
	}
}

func TestRequestsPassWithoutRedis(t *testing.T) {
	output := program.Run(t, "REDIS=redis://localhost:1")
	if degraded := strings.Count(output, "degraded=true"); degraded != 200 || strings.Contains(output, "allowed=false") {
		t.Errorf("%d of 200 decisions were made without Redis:\n%s", degraded, output)
	}
}
