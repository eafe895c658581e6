package server

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
)

func TestLogLinesOfRequestsAreBounded(t *testing.T) {
	for _, message := range perRequest() {
		synctest.Test(t, func(t *testing.T) {
			logs := newLogBuffer()
			log := boundLog(slog.New(slog.NewTextHandler(logs, nil)))
			for i := range 1000 {
				if i%2 == 0 {
					log.Error(message+" and more", "i", i)
				} else {
					log.With("by", "x").WithGroup("g").Error(message+" and more", "i", i)
				}
			}
			if n := strings.Count(logs.String(), "and more"); n != linesPerSecond {
				t.Errorf("%s: %d lines", message, n)
			}
			for range 20 {
				log.Error("reloaded")
			}
			if n := strings.Count(logs.String(), "reloaded"); n != 20 {
				t.Errorf("%d lines, want all of a message that requests cannot provoke", n)
			}
			time.Sleep(time.Second) // advances the clock of the bubble
			log.Error(message)
			log.Error(message)
			if n := strings.Count(logs.String(), "suppressed=990\n"); n != 1 || strings.Count(logs.String(), "suppressed") != 1 {
				t.Errorf("%s: the number of suppressed lines is missing:\n%s", message, logs)
			}
		})
	}
}

// Every surface whose requests can fail, over a store that no breaker guards.
func TestFloodOfRequestsThatFailDoesNotFillTheLog(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, batchRules), Store: failing{code: stint.CodeUnavailable}})
	for range 300 {
		s.post("http", "/v1/take", `{"key":"k","limit":"1/s"}`)
	}
	if n := strings.Count(s.logs.String(), "no decision"); n == 0 || n > 10*linesPerSecond {
		t.Errorf("%d lines for 300 requests", n)
	}
}

func TestEnvoyRequestsWithoutAConfigurationAreNotLogged(t *testing.T) {
	s := run(t, Config{})
	for range 3 {
		s.post("http", "/json", `{"domain":"shop","descriptors":[{}]}`)
	}
	if strings.Contains(s.logs.String(), "no decision") {
		t.Error(s.logs)
	}
}
