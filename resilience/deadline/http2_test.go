package deadline

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Over HTTP/2 a write deadline ends the whole stream, even if nothing is written. So it
// leaves time for the response of a handler that was blocked.
func TestLateAnswersOverHTTP2(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"whoHeedsItsContext": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"whoReads":           func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // which of the ready goroutines runs first is random
				synctest.Test(t, func(t *testing.T) { lateOverHTTP2(t, h) })
			}
		})
	}
}

func lateOverHTTP2(t *testing.T, h http.HandlerFunc) {
	t.Helper()
	resp, text, err := overHTTP2(t, h)
	if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 504 || !strings.Contains(text, "DEADLINE_EXCEEDED") {
		t.Errorf("%v: %q, %v", resp, text, err)
	}
}

// The client of a handler that does not end is informed by a reset.
func TestNoAnswerOverHTTP2IsAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		resp, text, err := overHTTP2(t, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) })
		if took := time.Since(start); err == nil || took != time.Second+writeGrace {
			t.Errorf("%v, %q, %v after %v", resp, text, err, took)
		}
		time.Sleep(time.Minute) // outlives the client; ends before the test does
	})
}

// overHTTP2 returns the response to a client that never ends its body.
func overHTTP2(t *testing.T, h http.HandlerFunc) (resp *http.Response, text string, err error) {
	t.Helper()
	n := pipes()
	l, _ := n.listen(0)
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: Middleware{Default: time.Second}.Wrap(h), Protocols: &only}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	tr := &http.Transport{DialContext: n.dial, Protocols: &only}
	defer tr.CloseIdleConnections()
	body, w := io.Pipe()
	defer w.Close()
	resp, err = (&http.Client{Transport: tr}).Post("http://service-1/", "text/plain", body)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return resp, string(read), err
}
