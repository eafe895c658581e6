package main

import (
	"testing"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestOnlyTheGroupIsLimited(t *testing.T) {
	url := program.Serve(t)
	program.ExpectLimit(t, url+"/api/", 3)
	program.ExpectHello(t, url+"/healthz")
}
