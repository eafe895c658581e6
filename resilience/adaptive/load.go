package adaptive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/resilience/internal/monotonic"
)

// CgroupCPU returns the load of this control group, relative to its quota or, without a
// quota, to all CPUs that the program may use. It reads the files of cgroup version 2 or,
// if those are missing, of version 1. root is the folder of these files; nil means
// /sys/fs/cgroup, which in a container is the container's own group. clock returns the
// time; nil means time.Now.
func CgroupCPU(root fs.FS, clock func() time.Time) Load {
	if root == nil {
		root = os.DirFS("/sys/fs/cgroup")
	}
	since := monotonic.New(clock)
	var used, at float64
	began := false
	return func() (float64, error) {
		now, err := readUsed(root)
		if err != nil {
			return 0, err
		}
		moment := float64(since.Now()) / float64(time.Microsecond)
		load := share(now-used, (moment-at)*cpus(root))
		if !began {
			load = 0 // the average since the group was made is not the current load
		}
		used, at, began = now, moment, true
		return load, nil
	}
}

// readUsed returns the CPU time that the group has used, in microseconds.
func readUsed(root fs.FS) (float64, error) {
	text, err := fs.ReadFile(root, "cpu.stat")
	if err != nil {
		if nanoseconds, errV1 := readNumber(root, "cpuacct/cpuacct.usage"); errV1 == nil {
			return nanoseconds / 1000, nil
		}
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "usage_usec "); ok {
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return 0, fmt.Errorf("cpu.stat: %w", errFormat)
}

// cpus returns how many CPUs the group may use: its quota, at most the CPUs of the
// machine.
func cpus(root fs.FS) float64 {
	quota, ok := readQuota(root)
	if !ok {
		return float64(runtime.GOMAXPROCS(0))
	}
	return min(quota, float64(runtime.NumCPU()))
}

// readQuota returns quota / period. Both are in cpu.max or, in version 1, in files of
// their own.
func readQuota(root fs.FS) (quota float64, ok bool) {
	text, err := fs.ReadFile(root, "cpu.max")
	if err != nil {
		quota, quotaErr := readNumber(root, "cpu/cpu.cfs_quota_us")
		period, periodErr := readNumber(root, "cpu/cpu.cfs_period_us")
		return quota / period, quotaErr == nil && periodErr == nil && quota > 0 && period > 0
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0, false
	}
	quota, err = strconv.ParseFloat(fields[0], 64)
	period, periodErr := strconv.ParseFloat(fields[1], 64)
	return quota / period, err == nil && periodErr == nil && quota > 0 && period > 0
}

// readNumber reads a file that contains one number.
func readNumber(root fs.FS, name string) (float64, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}

var errFormat = errors.New("has an unknown form")

// MachineCPU returns the load of all CPUs of the machine, from Linux's proc/stat. root is
// the folder that contains proc; nil means /.
func MachineCPU(root fs.FS) Load {
	if root == nil {
		root = os.DirFS("/")
	}
	var last ticks
	return func() (float64, error) {
		now, err := readTicks(root)
		if err != nil {
			return 0, err
		}
		load := share(now.busy-last.busy, now.total-last.total)
		if last.total == 0 {
			load = 0 // the average since the machine started is not the current load
		}
		last = now
		return load, nil
	}
}

// share returns part / whole, brought between 0 and 1, or 0 if whole is not above 0.
func share(part, whole float64) float64 {
	if !(whole > 0) {
		return 0
	}
	return min(1, max(0, part/whole))
}

// ticks are the busy time and the total time of all CPUs.
type ticks struct{ busy, total float64 }

const statFile = "proc/stat"

// readTicks reads the first line of proc/stat: "cpu user nice system idle iowait irq
// softirq steal". The fields after that are already part of user and nice.
func readTicks(root fs.FS) (t ticks, err error) {
	text, err := fs.ReadFile(root, statFile)
	if err != nil {
		return t, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return t, fmt.Errorf("%s: %w", statFile, errFormat)
	}
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return t, fmt.Errorf("%s: %w", statFile, err)
		}
		t.total += n
		if idle := i == 3 || i == 4; !idle {
			t.busy += n
		}
	}
	return t, nil
}
