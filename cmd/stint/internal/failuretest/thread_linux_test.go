package failuretest

import (
	"syscall"
	"time"
)

// threadNow returns the usage of the thread that runs the caller.
func threadNow() thread {
	const ofThread = 1 // RUSAGE_THREAD
	var r syscall.Rusage
	if syscall.Getrusage(ofThread, &r) != nil {
		return thread{}
	}
	return thread{id: syscall.Gettid(), ran: time.Duration(r.Utime.Nano() + r.Stime.Nano()), waits: r.Nvcsw}
}
