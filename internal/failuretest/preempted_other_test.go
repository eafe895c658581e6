//go:build !linux

package failuretest

// preemptions is what Linux alone tells.
func preemptions() (thread int, times int64) { return 0, 0 }
