package adapt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

var errFormat = errors.New("has an unknown form")

// MachineCPU returns the load of all CPUs of the machine, from Linux's
// proc/stat. root is where that is; nil is the machine's own.
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
			load = 0 // since the machine started: that says nothing of now
		}
		last = now
		return load, nil
	}
}

// share is a part of a whole, and 0 of none.
func share(part, whole float64) float64 {
	if !(whole > 0) {
		return 0
	}
	return min(1, max(0, part/whole))
}

// ticks are how long all CPUs have worked, and how long they were there.
type ticks struct{ busy, total float64 }

const statFile = "proc/stat"

// readTicks reads the first line of proc/stat: "cpu user nice system idle
// iowait irq softirq steal", then what is part of user and nice already.
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

// CgroupCPU returns the load of this control group (version 2) against its
// quota or, where it has none, all CPUs that the program may use. root is its
// folder; nil is sys/fs/cgroup, as containers see their own. Where root is not
// nil, tests may give a clock too; nil is the system's.
func CgroupCPU(root fs.FS, clock func() time.Duration) Load {
	if root == nil {
		root = os.DirFS("/sys/fs/cgroup")
	}
	if clock == nil {
		clock = monotonic()
	}
	var used, at float64
	return func() (float64, error) {
		now, err := readUsed(root)
		if err != nil {
			return 0, err
		}
		moment := float64(clock().Microseconds())
		load := share(now-used, (moment-at)*cpus(root))
		if at == 0 {
			load = 0 // since the group was made: that says nothing of now
		}
		used, at = now, moment
		return load, nil
	}
}

// readUsed is how many microseconds of CPU a group has used.
func readUsed(root fs.FS) (float64, error) {
	text, err := fs.ReadFile(root, "cpu.stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "usage_usec "); ok {
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return 0, fmt.Errorf("cpu.stat: %w", errFormat)
}

// cpus is how many CPUs a group may use: quota and period of cpu.max.
func cpus(root fs.FS) float64 {
	text, err := fs.ReadFile(root, "cpu.max")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) != 2 {
		return float64(runtime.GOMAXPROCS(0))
	}
	quota, err := strconv.ParseFloat(fields[0], 64)
	period, periodErr := strconv.ParseFloat(fields[1], 64)
	if err != nil || periodErr != nil || !(quota > 0) || !(period > 0) {
		return float64(runtime.GOMAXPROCS(0))
	}
	return quota / period
}
