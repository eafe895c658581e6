package clock

import (
	"bytes"
	"os"
)

// cycles reads the processor's time stamp counter.
func cycles() uint64

// cpuid returns two registers of the processor's description of itself.
func cpuid(leaf uint32) (eax, edx uint32)

// counterKeepsTime reports whether the kernel keeps time by the counter, which
// then agrees between processors, and whether the processor promises that the
// counter is invariant: that it runs at a constant rate and never stops.
func counterKeepsTime() bool {
	const extended, power, invariant = 0x80000000, 0x80000007, 1 << 8
	if most, _ := cpuid(extended); most < power {
		return false
	}
	if _, edx := cpuid(power); edx&invariant == 0 {
		return false
	}
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && string(bytes.TrimSpace(source)) == "tsc"
}
