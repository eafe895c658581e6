package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// A full bucket allows five mails at once, and refills five a second.
func TestWorkersKeepTheLimit(t *testing.T) {
	start := time.Now()
	p := program.Start(t)
	for mails := 0; mails < 10; mails = strings.Count(p.Output(), "sends a mail") {
		if !p.Running() {
			t.Fatal("the program ended")
		}
		if most := 5 + 5*time.Since(start).Seconds(); float64(mails) > most {
			t.Fatalf("%d mails in %v", mails, time.Since(start))
		}
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("10 mails in %v", took)
	}
}
