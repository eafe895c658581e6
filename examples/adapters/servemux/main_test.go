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
		if status, _ := program.Get(t, url+"/login"); status != want {
			t.Errorf("login %d: status %d, want %d", i+1, status, want)
		}
	}
	program.ExpectLimit(t, url, 3) // the logins used two of five
}
