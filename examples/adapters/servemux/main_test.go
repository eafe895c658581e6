package main

import (
	"net/http"
	"testing"

	"github.com/stintdev/stint/examples/internal/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestRoutesAreLimited(t *testing.T) {
	url := program.Serve(t)
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if r := program.Get(t, url+"/login"); r.StatusCode != want {
			t.Errorf("login %d: status %d, want %d", i+1, r.StatusCode, want)
		}
	}
	program.ExpectLimit(t, url, 3) // the logins used two of five
}
