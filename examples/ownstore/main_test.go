package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/examples/internal/program"
	"github.com/stintdev/stint/storetest"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestCountsSurviveTheProgram(t *testing.T) {
	dir := t.TempDir()
	var outputs strings.Builder
	for range 4 {
		outputs.WriteString(program.Run(t, "DIR="+dir))
	}
	want := "allowed=true remaining=2\nallowed=true remaining=1\nallowed=true remaining=0\nallowed=false remaining=0\n"
	if outputs.String() != want {
		t.Errorf("four runs wrote\n%s", outputs.String())
	}
}

func TestStoreKeepsItsContract(t *testing.T) {
	open := func(t *testing.T, clock func() time.Time) stint.Store {
		return &fileStore{dir: t.TempDir(), clock: clock}
	}
	storetest.Suite{Open: open, Runs: 10, Steps: 10}.Run(t)
}
