package main

import (
	"strings"
	"testing"
	"time"
)

func TestEveryContestantAdmitsExactlyItsLimit(t *testing.T) {
	for _, c := range contestants() {
		if err := c.checkLimits(); err != nil {
			t.Error(err)
		}
	}
}

func TestALimiterThatDoesNotLimitIsFound(t *testing.T) {
	open := contestant{name: "open", build: func(allowance) (take, error) {
		return func(string) bool { return true }, nil
	}}
	if err := open.checkLimits(); err == nil {
		t.Error("a limiter that admits everything passes")
	}
}

func TestKeysAreDifferentAndOfOneLength(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range newKeyText(10_000).list() {
		if len(key) != keyLength || seen[key] {
			t.Fatalf("key %q has another length, or comes twice", key)
		}
		seen[key] = true
	}
}

func TestZipfAsksForFewKeysOften(t *testing.T) {
	counts := map[uint32]int{}
	most := 0
	for _, i := range zipfOrder(1000, 1.1) {
		counts[i]++
		most = max(most, counts[i])
	}
	if share := float64(most) / orderLength; share < 0.1 || share > 0.3 || len(counts) < 900 {
		t.Errorf("the most frequent of %d keys has a share of %.2f", len(counts), share)
	}
}

func TestRatiosArePairedByRound(t *testing.T) {
	times := timings{"a": {1, 20, 3}, "b": {2, 40, 3}}
	if got := times.ratio("a", "b"); got != 0.5 {
		t.Errorf("ratio %v; want 0.5, although the machine was slow in one round", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v; want 2.5", got)
	}
}

func TestBarsAreMetOrMissed(t *testing.T) {
	var b bars
	b.judge("fine", 1, 1, "x")
	b.judge("not fine", 1.01, 1, "x")
	b.judgeLeast("enough", 3, 3, "x")
	b.judgeLeast("not enough", 2.99, 3, "x")
	var out strings.Builder
	b.print(&out)
	if strings.Count(out.String(), "MISSED") != 2 || strings.Count(out.String(), "met") != 2 {
		t.Error(out.String())
	}
}

// The parts that run in processes of their own run in this one: a test has no program to
// start.
func TestPartsRunInSmall(t *testing.T) {
	o := options{only: []string{"hot", "batch"}, rounds: 1, slice: time.Millisecond, keys: 10_000}
	var out strings.Builder
	if err := runParts(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hot: 1 keys, 2 CPU", referenceName, "batches of 32"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	for work, want := range map[string]string{"flood": `"Slipped":0`, "fill:" + stintName: `"BytesPerKey":`} {
		out.Reset()
		if err := here(work, 100_000, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %s", work, err, out.String())
		}
	}
}

func TestUnknownPartsAndEmptyRacesAreRefused(t *testing.T) {
	if _, err := parse([]string{"-only", "hot,cold"}); err == nil || !strings.Contains(err.Error(), "cold") {
		t.Errorf("-only hot,cold: %v", err)
	}
	for _, nothing := range []string{"-rounds=0", "-slice=999us", "-keys=31"} {
		name, _, _ := strings.Cut(nothing, "=")
		if _, err := parse([]string{nothing}); err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: %v", nothing, err)
		}
	}
	for only, want := range map[string]string{"stores": "stores/all stores/postgres", "stores/postgres": "stores/postgres", "hot": ""} {
		o, err := parse([]string{"-only", only})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, part := range []string{"stores/all", "stores/postgres"} {
			if o.runs(part) {
				got = append(got, part)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("-only %s runs %q", only, got)
		}
	}
	if _, err := parse([]string{"-rounds=1", "-slice=1ms", "-keys=32"}); err != nil {
		t.Errorf("the least: %v", err)
	}
	if err := here("nothing", 1, &strings.Builder{}); err == nil {
		t.Error("-here nothing does something")
	}
}
