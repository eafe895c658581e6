package clock

import (
	"bytes"
	"os"
)

// cycles reads the processor's time stamp counter.
func cycles() uint64

// counterKeepsTime reports whether the kernel keeps time by the counter. The
// counter then runs at a constant rate and agrees between processors.
func counterKeepsTime() bool {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && string(bytes.TrimSpace(source)) == "tsc"
}
