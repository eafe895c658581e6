package main

import (
	"testing"
	"time"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// A full bucket allows five mails at once, and refills five a second.
func TestWorkersKeepTheLimit(t *testing.T) {
	start := time.Now()
	program.Start(t).AwaitOutput(t, "sends a mail", 10)
	if took := time.Since(start); took < time.Second {
		t.Errorf("10 mails in %v", took)
	}
}
