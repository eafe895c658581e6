package failuretest

import "syscall"

// preemptions is the thread that runs the caller, and how often the kernel has
// taken the processor from it unasked.
func preemptions() (thread int, times int64) {
	const ofThread = 1 // RUSAGE_THREAD
	var r syscall.Rusage
	if syscall.Getrusage(ofThread, &r) != nil {
		return 0, 0
	}
	return syscall.Gettid(), r.Nivcsw
}
