package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// resident is how much memory of this process is in the machine's memory
// right now, in bytes, and how much was at most since resetPeak.
func resident() (now, peak int64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, fmt.Errorf("memory is measured on Linux alone: %w", err)
	}
	if now, err = statusBytes(string(status), "VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = statusBytes(string(status), "VmHWM:")
	return now, peak, err
}

// resetPeak begins the peak anew at what is resident now.
func resetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// residentIdle is what is resident after the collector gave back what it
// could.
func residentIdle() (int64, error) {
	debug.FreeOSMemory()
	now, _, err := resident()
	return now, err
}

// statusBytes reads a line such as "VmRSS:	  1234 kB".
func statusBytes(status, field string) (int64, error) {
	_, rest, found := strings.Cut(status, field)
	line, _, _ := strings.Cut(rest, "\n")
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	if !found || err != nil {
		return 0, fmt.Errorf("/proc/self/status has no %s in kB", field)
	}
	return kilobytes << 10, nil
}
