package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// The first 100 mails are sent at once, the other 900 take nine hours.
func TestDayTakesNoTime(t *testing.T) {
	start := time.Now()
	output := program.Run(t)
	if want := "1000 mails were sent by 09:00:00\n"; output != want {
		t.Errorf("the program wrote %q, not %q", output, want)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("the day took %v", took)
	}
}

// In a bubble time is fake, so the code under test runs as it is. After 300 mails the
// next turn would come 36 s after the deadline, so Wait fails at once.
func TestSendInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "mail", stint.MustParseLimit("100/h"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		start := time.Now()
		sent, err := send(ctx, limiter, 1000)
		if took := time.Since(start); sent != 300 || took != 2*time.Hour || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d mails were sent in %v: %v", sent, took, err)
		}
	})
}
