package adaptive

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestLinear(t *testing.T) {
	for load, want := range map[float64]float64{-1: 1, 0: 1, 0.8: 1, 0.85: 0.875, 0.9: 0.75, 1: 0.5, 7: 0.5, math.Inf(1): 0.5, math.NaN(): 1} {
		if got := Linear(load); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", load, got, want)
		}
	}
}

func TestCPUScales(t *testing.T) {
	now, load, broken := time.Duration(0), 0.0, error(nil)
	c := must(NewCPU(CPUOptions{Full: 40, Clock: func() time.Time { return time.Unix(0, int64(now)) }, Load: func() (float64, error) { return load, broken }}))
	for _, step := range []struct {
		at    time.Duration
		load  float64
		err   error
		limit float64
		scale int64 // scale of the load
	}{
		{0, 0.5, nil, 40, 100},
		{time.Second - 1, 1, nil, 40, 100}, // the load is not read again yet
		{time.Second, 1, nil, 20, 50},
		{3 * time.Second, 0, errors.New("gone"), 20, 50}, // the last load stays in use
		{4 * time.Second, 0.9, nil, 30, 75},
	} {
		now, load, broken = step.at, step.load, step.err
		if limit, scale := c.Next(1, Window{}), c.Scale(100); math.Abs(limit-step.limit) > 1e-9 || scale != step.scale {
			t.Errorf("at %v: %v and %v, want %v and %v", step.at, limit, scale, step.limit, step.scale)
		}
	}
	if a, b, negative := c.Scale(1), c.Scale(0), c.Scale(-5); a != 1 || b != 0 || negative != -3 {
		t.Error(a, b, negative)
	}
}

// A limit by CPU starts at Full, however great that is.
func TestCPUBeginsFull(t *testing.T) {
	for _, full := range []int{5, 5000} {
		c := must(New(Options{Algorithm: must(NewCPU(CPUOptions{Full: full, Load: func() (float64, error) { return 0, nil }}))}))
		if got := c.Usage().Limit; got != full {
			t.Errorf("got %d of %d", got, full)
		}
	}
}

func TestCPUScalesTheGreatestNumbers(t *testing.T) {
	for load, want := range map[float64]int64{0: math.MaxInt64, 0.8: math.MaxInt64, 1: 1 << 62} {
		c := must(NewCPU(CPUOptions{Load: func() (float64, error) { return load, nil }}))
		if got := c.Scale(math.MaxInt64); got != want {
			t.Errorf("at %v: %d, want %d", load, got, want)
		}
	}
}

// With the greatest Every, the load is read once.
func TestLoadThatIsReadOnce(t *testing.T) {
	now, read := time.Hour, 0
	c := must(NewCPU(CPUOptions{Every: math.MaxInt64, Clock: func() time.Time { return time.Unix(0, int64(now)) }, Load: func() (float64, error) { read++; return 0, nil }}))
	now += time.Hour
	if c.Load(); read != 1 {
		t.Errorf("read %d times", read)
	}
}

func TestCPUThatCannotBe(t *testing.T) {
	gone := func() (float64, error) { return 0, errors.New("no such file") }
	for want, o := range map[string]CPUOptions{"Full": {Full: -1}, "Every": {Every: -1}, "use another Load": {Load: gone}} {
		if _, err := NewCPU(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestMachineCPU(t *testing.T) {
	fs := fstest.MapFS{}
	write := func(text string) { fs["proc/stat"] = &fstest.MapFile{Data: []byte(text)} }
	load := MachineCPU(fs)
	if _, err := load(); err == nil {
		t.Error("there is no file")
	}
	write("cpu  1000 0 0 1000 0 0 0 0 999 999\ncpu0 1 2 3 4\n")
	if got, err := load(); err != nil || got != 0 {
		t.Errorf("at first: %v, %v", got, err)
	}
	write("cpu  1040 10 20 1020 5 3 2 0 1099 1999\n") // 75 of 100 ticks; guests are users, too
	if got, err := load(); err != nil || got != 0.75 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := load(); err != nil || got != 0 {
		t.Errorf("no time has passed: %v, %v", got, err)
	}
	write("cpu  1140 10 20 970 5 3 2 0 0 0\n") // the idle time may go back
	if got, err := load(); err != nil || got != 1 {
		t.Errorf("more than all: %v, %v", got, err)
	}
	write("cpu  1040 10 20 1170 5 3 2 0 0 0\n")
	if got, err := load(); err != nil || got != 0 {
		t.Errorf("less than none: %v, %v", got, err)
	}
	for _, garbage := range []string{"", "cpu", "cpu a b c d e", "cpu0 1 2 3 4 5"} {
		write(garbage)
		if _, err := load(); err == nil {
			t.Errorf("%q was read", garbage)
		}
	}
}

// group holds the files of a control group.
type group struct{ fstest.MapFS }

func (g group) write(name, text string) { g.MapFS[name] = &fstest.MapFile{Data: []byte(text)} }

func TestCgroupCPU(t *testing.T) {
	now := time.Duration(0)
	g := group{fstest.MapFS{}}
	g.write("cpu.stat", "usage_usec 500\nuser_usec 1\n")
	g.write("cpu.max", "50000 100000\n")
	load := CgroupCPU(g, func() time.Time { return time.Unix(0, int64(now)) })
	if got, err := load(); err != nil || got != 0 {
		t.Errorf("at first: %v, %v", got, err)
	}
	now += time.Second
	g.write("cpu.stat", "usage_usec 375500\n") // 0.375 of half a CPU
	if got, err := load(); err != nil || got != 0.75 {
		t.Errorf("%v, %v", got, err)
	}
	now += time.Second
	g.write("cpu.max", "max 100000\n") // no quota: all CPUs
	if got, err := load(); err != nil || got != 0 {
		t.Errorf("%v, %v", got, err)
	}
	g.write("cpu.stat", "nothing\n")
	if _, err := load(); err == nil {
		t.Error("garbage was read")
	}
	delete(g.MapFS, "cpu.stat")
	if _, err := load(); err == nil {
		t.Error("nothing was read")
	}
}

func TestCgroupCPUOfVersionOne(t *testing.T) {
	now := time.Duration(0)
	g := group{fstest.MapFS{}}
	g.write("cpuacct/cpuacct.usage", "500000\n")
	g.write("cpu/cpu.cfs_quota_us", "50000\n")
	g.write("cpu/cpu.cfs_period_us", "100000\n")
	load := CgroupCPU(g, func() time.Time { return time.Unix(0, int64(now)) })
	_, _ = load()
	now += time.Second
	g.write("cpuacct/cpuacct.usage", "375500000\n")
	if got, err := load(); err != nil || got != 0.75 {
		t.Errorf("%v, %v", got, err)
	}
}

// A group may use as many CPUs as the machine has, at most, whatever its quota.
func TestCPUsOfAGroup(t *testing.T) {
	all, there := float64(runtime.GOMAXPROCS(0)), float64(runtime.NumCPU())
	for text, want := range map[string]float64{
		"50000 100000": 0.5, "100000000000 100000": there,
		"max 100000": all, "": all, "garbage": all, "a b": all, "0 0": all, "-1 100000": all, "NaN 1": all, "1 NaN": all,
	} {
		v1 := strings.Fields(text + " - -")
		two, one := group{fstest.MapFS{}}, group{fstest.MapFS{}}
		two.write("cpu.max", text)
		one.write("cpu/cpu.cfs_quota_us", v1[0])
		one.write("cpu/cpu.cfs_period_us", v1[1])
		if got, gotOne := cpus(two), cpus(one); got != want || gotOne != want {
			t.Errorf("%q: %v and of version 1 %v, want %v", text, got, gotOne, want)
		}
	}
}
