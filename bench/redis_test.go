package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

func TestRedisPartRunsInSmall(t *testing.T) {
	for name, version := range map[string]string{"": "redis: ", "redis-6.2": "redis: Redis 6.2.", "valkey": "redis: Valkey "} {
		t.Run(name, func(t *testing.T) {
			o := options{only: []string{"redis"}, rounds: 1, slice: 5 * time.Millisecond, keys: 10_000}
			if name != "" {
				o.redis = testserver.Pinned(t, name)
			}
			if o.findRedis() == "" {
				t.Skip("no redis-server or valkey-server is installed")
			}
			var out strings.Builder
			if err := runParts(t.Context(), o, &out); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				version, "distinct keys, 1 goroutine", "one hot key, 256 goroutines", rateName, plainName,
				"64 to a pipeline", "bytes a key", "of a hash of two fields",
			} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q:\n%s", want, out.String())
				}
			}
			weighed := regexp.MustCompile(`: (\S+) bytes a key; .*: (\S+)\n`).FindStringSubmatch(out.String())
			for _, figure := range weighed[1:] {
				if perKey, err := strconv.ParseFloat(figure, 64); err != nil || perKey < 50 || perKey > 300 {
					t.Errorf("%s bytes a key (%v); want 50 to 300", figure, err)
				}
			}
		})
	}
}

// installOnly changes to a folder whose .cache/servers has one program, and returns the
// program's path.
func installOnly(t *testing.T, name string) (program string) {
	t.Helper()
	root := t.TempDir()
	program = filepath.Join(root, ".cache", "servers", name, name+"-server")
	for path, mode := range map[string]os.FileMode{filepath.Join(root, "scripts", "test-servers.txt"): 0o600, program: 0o700} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, mode)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	return program
}

func TestServersOfTheFolderAreFoundByName(t *testing.T) {
	text, err := os.ReadFile("../scripts/test-servers.txt")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(\S+) \S+-server `).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if !slices.Equal(names, redisServers) {
		t.Errorf("scripts/install-wheels installs %v; -server knows %v", names, redisServers)
	}

	program := installOnly(t, "valkey")
	o, err := parse([]string{"-server", "valkey"})
	if err != nil || o.findRedis() != program {
		t.Errorf("-server valkey: %q, %v; want %q", o.findRedis(), err, program)
	}
	for name, want := range map[string]string{
		"redis-6.2": "-server: redis-6.2 is not in .cache/servers: run scripts/install-wheels",
		"caddy":     `-server: "caddy" is unknown: use redis-6.2 or valkey`,
		"../valkey": `-server: "../valkey" is unknown: use redis-6.2 or valkey`,
	} {
		if _, err := parse([]string{"-server", name}); err == nil || err.Error() != want {
			t.Errorf("-server %s: %v; want %s", name, err, want)
		}
	}
}

func TestRedisPartIsSkippedWithoutAServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	if err := runParts(t.Context(), options{only: []string{"redis"}}, &out); err != nil || !strings.Contains(out.String(), "skipped") {
		t.Errorf("%v: %q", err, out.String())
	}
}

func TestAServerIsGoneWhenStopped(t *testing.T) {
	program := options{}.findRedis()
	if program == "" {
		t.Skip("no redis-server or valkey-server is installed")
	}
	ctx := context.Background()
	s, err := startRedis(ctx, program, newPinning().server)
	if err != nil {
		t.Fatal(err)
	}
	if used, err := s.usedMemory(ctx); err != nil || used < 100_000 {
		t.Errorf("used memory %d: %v", used, err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if s.process.ProcessState == nil {
		t.Error("the server still runs")
	}
}

func TestBothClocksTellProcessorTime(t *testing.T) {
	if threadTime(os.Getpid()) == 0 {
		t.Skip("the system does not report the processor time of threads")
	}
	self := os.Getpid()
	one, many := bothClock(self, 1)(), bothClock(self, 2)()
	var used time.Duration
	for start := processorTime(); used < 20*time.Millisecond; {
		used = processorTime() - start
	}
	most, sum := many(), one()
	if most < 20*time.Millisecond || sum < most {
		t.Errorf("%v for one caller, %v for many, after 20 ms of work", sum, most)
	}
}

func TestQuantilesAreNearestRanks(t *testing.T) {
	sorted := make([]uint32, 2000)
	for i := range sorted {
		sorted[i] = uint32(i + 1)
	}
	for _, c := range []struct {
		of1000 int
		want   float64
	}{{500, 1000}, {990, 1980}, {999, 1998}, {1000, 2000}} {
		if got := quantile(sorted, c.of1000); got != c.want {
			t.Errorf("quantile %d of 1000: %v; want %v", c.of1000, got, c.want)
		}
	}
	if got := quantile([]uint32{7}, 1); got != 7 {
		t.Errorf("of one value: %v", got)
	}
}

func TestCallersWalkThroughTheirOwnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		note := func(key string) bool {
			asked = append(asked, key)
			time.Sleep(stretch / 2)
			return key != "d"
		}
		seen := newAnswers(2, 1)
		r := calling{callers: 2}.runner("any", note, []string{"a", "b", "c", "d", "e", "f"}, seen)
		for caller := range 2 {
			if first, second := r.block(caller), r.block(caller); first != 2 || second != 2 {
				t.Errorf("%d and %d calls; want 2 in a stretch", first, second)
			}
		}
		if want := []string{"a", "b", "c", "a", "d", "e", "f", "d"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v; want %v", asked, want)
		}
		r.after(true)
		r.block(0)
		r.after(false)
		if seen.Calls != 8 || seen.Refused != 2 || len(seen.P99) != 1 {
			t.Errorf("%d calls, %d refused, %d rounds", seen.Calls, seen.Refused, len(seen.P99))
		}
	})
}

func TestPartsOfASliceHaveOneTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes time.Duration
		denied := func(string) bool { time.Sleep(takes); return false }
		seen := newAnswers(1, 2)
		r := calling{callers: 1}.runner("any", denied, []string{"a"}, seen)
		for part, ms := range []int{9, 1, 3, 3, 1} { // the first part is a warm-up and does not count
			takes = time.Duration(ms) * time.Millisecond
			r.block(0)
			r.after(part > 0)
			time.Sleep(time.Second) // time of other contestants, between two parts
		}
		if !slices.Equal(seen.P50, []float64{1e6, 1e6}) || !slices.Equal(seen.P99, []float64{3e6, 3e6}) {
			t.Errorf("half of the calls within %v ns, 99 %% within %v; want 1 and 3 ms in each of 2 slices", seen.P50, seen.P99)
		}
		if seen.Calls != 4 || seen.Refused != 4 {
			t.Errorf("%d calls, %d refused; want 4 of 4", seen.Calls, seen.Refused)
		}
	})
}

func TestWorkloadsOverTheNetworkTakeAsLong(t *testing.T) {
	o := options{rounds: 3, slice: 40 * time.Millisecond}
	for _, c := range callings() {
		r := c.race(o)
		if took := time.Duration(r.rounds) * r.slice; took != 6*o.slice || r.rounds != 6*c.parts() || r.callers != c.callers {
			t.Errorf("%v: %d rounds of %v with %d callers", c, r.rounds, r.slice, r.callers)
		}
	}
	if lone := (calling{callers: 1}).race(o); lone.slice != o.slice/10 {
		t.Errorf("a lone caller runs for %v at a time; want %v", lone.slice, o.slice/10)
	}
}

func TestCPUListsAreSpeltOut(t *testing.T) {
	for list, want := range map[string]string{"0-1": "0 1", "3": "3", "0-2,8,10-11": "0 1 2 8 10 11", "": "", "x": ""} {
		if got := strings.Join(eachCPU(list), " "); got != want {
			t.Errorf("%q: %q; want %q", list, got, want)
		}
	}
}
