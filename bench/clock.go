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

// clock begins to measure time and returns what tells how much has passed.
type clock func() (elapsed func() time.Duration)

// wallClock is the time that passes.
func wallClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// processorClock is what this process has used of all CPUs, as if it were the
// only one on them: cpus of them pass an hour in an hour. On a machine that
// is busy with other things it tells more than the wall clock; but time that
// a call waits for another is not in it.
func processorClock(cpus int) clock {
	return func() func() time.Duration {
		start := processorTime()
		return func() time.Duration { return (processorTime() - start) / time.Duration(cpus) }
	}
}

// processorTime is what this process has used of all CPUs so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bothClock is processorClock for this process and a server that have a CPU
// each. One caller waits while the server works, so the times add up; while
// many ask, the busier of the two decides how long it takes.
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

// sharedClock is processorClock for this process and servers, which share so
// many CPUs.
func sharedClock(servers []int, cpus int) clock {
	return func() func() time.Duration {
		start := processorTime() + threadsTime(servers)
		return func() time.Duration { return (processorTime() + threadsTime(servers) - start) / time.Duration(cpus) }
	}
}

// threadsTime is what all threads of other processes have used so far.
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

// threadTime is what the first thread of another process has used so far; 0
// where the system does not tell.
func threadTime(process int) time.Duration {
	return scheduled(fmt.Sprintf("/proc/%d", process))
}

// scheduled reads what a thread has used of its folder in /proc.
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
