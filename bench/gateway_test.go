package main

import (
	"strings"
	"testing"
	"time"
)

func TestEveryGatewayAnswersAndIsMeasured(t *testing.T) {
	o := options{rounds: 1, slice: time.Second}
	var out strings.Builder
	if o.lacksGateways(&out) {
		t.Skip(strings.TrimSpace(out.String()))
	}
	g := gatewayRace{o: o, dir: t.TempDir(), seen: map[string]*gatewayFigures{}, took: timings{}, cpu: timings{}}
	g.o.stint = stintProgram(t)
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	})
	if err := g.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.print(&out)
	for _, name := range []string{upstreamName, nginxName, haproxyName, caddyName, stintGatewayName} {
		if f := g.seen[name]; f == nil || f.requests == 0 || f.failed > 0 || f.p50[0] <= 0 || f.p99[0] < f.p50[0] || !strings.Contains(out.String(), name) {
			t.Errorf("%s: %+v\n%s", name, f, out.String())
		}
		if cpu := g.cpu.ns(name); cpu <= 0 {
			t.Errorf("%s: %v ns of processor time a request", name, cpu)
		}
	}
	var b bars
	if g.judge(&b); len(b) != 4 || !b[3].met() {
		t.Errorf("bars: %+v", b)
	}
}

func TestGatewayPartIsSkippedWithWhatToRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	err := runParts(t.Context(), options{only: []string{"gateway"}}, &out)
	if text := out.String(); err != nil || !strings.HasPrefix(text, "\ngateway: skipped, not installed: wrk, ") || !strings.HasSuffix(text, " (scripts/install-test-servers)\n") {
		t.Errorf("%v: %q", err, text)
	}
}

func TestOutputOfWrkIsRead(t *testing.T) {
	run, err := readWrk("Running 1s test\n  2 threads\nmeasured 1200 1000500 230 4100 3\n")
	if want := (wrkRun{1200, 3, 1000500 * time.Microsecond, 230 * time.Microsecond, 4100 * time.Microsecond}); err != nil || run != want {
		t.Errorf("%+v, %v; want %+v", run, err, want)
	}
	for _, said := range []string{"", "measured 0 1000500 0 0 64", "measured many"} {
		if _, err := readWrk(said); err == nil || !strings.Contains(err.Error(), "wrk printed no result") {
			t.Errorf("%q: %v", said, err)
		}
	}
}
