package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// pinning gives a server one CPU and this process another, so that neither waits for the
// other's CPU. The zero pinning changes nothing.
type pinning struct {
	all            string // the CPUs of this process before, as taskset lists them
	server, client string
}

// newPinning chooses two CPUs. Without taskset, or with one CPU, it returns the zero
// pinning.
func newPinning() pinning {
	all, cpus := allowedCPUs()
	if _, err := exec.LookPath("taskset"); err != nil || len(cpus) < 2 {
		return pinning{}
	}
	return pinning{all: all, server: cpus[0], client: cpus[1]}
}

func (p pinning) String() string {
	if p.server == "" {
		return "not pinned (no taskset, or one CPU): they share the CPUs, and the figures tell less"
	}
	return fmt.Sprintf("server pinned to CPU %s, client to CPU %s", p.server, p.client)
}

// command returns a command that runs on one CPU, or on any if cpu is empty.
func command(ctx context.Context, cpu, program string, args ...string) *exec.Cmd {
	if cpu == "" {
		return exec.CommandContext(ctx, program, args...) //nolint:gosec // the program is ours, or named by the operator
	}
	return exec.CommandContext(ctx, "taskset", append([]string{"-c", cpu, program}, args...)...) //nolint:gosec // the program is ours, or named by the operator
}

// hold moves every thread of this process to the client's CPU, and returns a function
// that undoes it.
func (p pinning) hold(ctx context.Context) (release func() error, err error) {
	move := func(cpus string) error {
		if cpus == "" {
			return nil
		}
		// taskset gives up when a thread ends between its list and its turn.
		var err error
		for range 10 {
			var out []byte
			if out, err = exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", cpus, strconv.Itoa(os.Getpid())).CombinedOutput(); err == nil {
				return nil
			}
			err = fmt.Errorf("taskset: %w: %s", err, bytes.TrimSpace(out))
		}
		return err
	}
	return func() error { return move(p.all) }, move(p.client)
}

// allowedCPUs returns the CPUs on which this process may run: as a list such as 0-3,8,
// and one by one. Where the system does not report them, both are empty.
func allowedCPUs() (list string, each []string) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", nil
	}
	_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(rest, "\n")
	list = strings.TrimSpace(list)
	return list, eachCPU(list)
}

// eachCPU expands a list such as 0-3,8.
func eachCPU(list string) (each []string) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			return nil
		}
		for cpu := from; cpu <= to; cpu++ {
			each = append(each, strconv.Itoa(cpu))
		}
	}
	return each
}
