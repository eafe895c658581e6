package main

import (
	"syscall"
	"time"
)

// wallClock is the time that passes.
func wallClock() time.Duration { return time.Duration(time.Now().UnixNano()) }

// processorTime is what this process has used of all CPUs, as if it were the
// only one on them: cpus of them pass an hour in an hour. On a machine that
// is busy with other things it tells more than the wall clock; but time that
// a call waits for another is not in it.
func processorTime(cpus int) func() time.Duration {
	return func() time.Duration {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
			return wallClock()
		}
		return time.Duration(u.Utime.Nano()+u.Stime.Nano()) / time.Duration(cpus)
	}
}
