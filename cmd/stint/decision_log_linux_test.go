package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A full disk costs lines, which are counted, and one line of the log.
func TestADecisionLogOnAFullDisk(t *testing.T) {
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), oneAnHour)
	p := startServer(t, nil, "--rules", rules, "--decision-log", "/dev/full", "--decision-log-sample", "0")
	deny(t, p, 5)
	p.awaitMetric(`stint_decision_log_dropped_total{reason="write",rule="a"} 5`)
	deny(t, p, 4)
	p.awaitMetric(`stint_decision_log_dropped_total{reason="write",rule="a"} 10`)
	if text := strings.Join(p.logged(), "\n"); strings.Count(text, "decision log: cannot be written") != 1 {
		t.Error("the log does not say it once")
	}
}
