package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clock starts a measurement and returns a function that returns the elapsed time.
type clock func() (elapsed func() time.Duration)

// wallClock measures the time that passes.
func wallClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// processorClock measures the processor time of this process, divided by the number of
// CPUs, as if it were the only process on them. On a busy machine it tells more than the
// wall clock. It does not include the time that a call waits for another.
func processorClock(cpus int) clock {
	return func() func() time.Duration {
		start := processorTime()
		return func() time.Duration { return (processorTime() - start) / time.Duration(cpus) }
	}
}

// processorTime returns the processor time that this process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bothClock measures the processor time of this process and a server that have a CPU
// each. A single caller waits while the server works, so the two times add up. With many
// callers, the busier of the two decides how long the work takes.
func bothClock(server, callers int) clock {
	return func() func() time.Duration {
		ours, theirs := processorTime(), threadTime(server)
		return func() time.Duration {
			client, server := processorTime()-ours, threadTime(server)-theirs
			if callers == 1 {
				return client + server
			}
			return max(client, server)
		}
	}
}

// sharedClock is processorClock for this process and servers that share the CPUs.
func sharedClock(servers []int, cpus int) clock {
	return func() func() time.Duration {
		start := processorTime() + threadsTime(servers)
		return func() time.Duration { return (processorTime() + threadsTime(servers) - start) / time.Duration(cpus) }
	}
}

// threadsTime returns the processor time that all threads of other processes have used so
// far.
func threadsTime(processes []int) (used time.Duration) {
	for _, process := range processes {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", process))
		if err != nil {
			return 0
		}
		for _, thread := range threads {
			used += scheduled(thread)
		}
	}
	return used
}

// threadTime returns the processor time of the first thread of another process, or 0
// where the system does not report it.
func threadTime(process int) time.Duration {
	return scheduled(fmt.Sprintf("/proc/%d", process))
}

// scheduled returns the processor time of a thread, from its folder in /proc.
func scheduled(folder string) time.Duration {
	text, err := os.ReadFile(filepath.Join(folder, "schedstat")) //nolint:gosec // a file of /proc
	if err != nil {
		return 0
	}
	used, _, _ := strings.Cut(string(text), " ")
	ns, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}
