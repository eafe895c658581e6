package adaptive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

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
