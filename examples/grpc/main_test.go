package main

import (
	"strings"
	"testing"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestFourthCallIsDenied(t *testing.T) {
	output := program.Run(t)
	if n := strings.Count(output, "SERVING OK"); n != 3 {
		t.Errorf("%d of 3 calls were served:\n%s", n, output)
	}
	if !strings.Contains(output, "ResourceExhausted try again in 19m") && !strings.Contains(output, "ResourceExhausted try again in 20m") {
		t.Errorf("the denial does not say when to try again:\n%s", output)
	}
}
