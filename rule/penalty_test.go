package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// penaltyOf returns the penalty of a rule with these fields.
func penaltyOf(t *testing.T, fields string) *Penalty {
	t.Helper()
	set, err := Parse(File{"rules.yaml", []byte("rules:\n  - {id: a, limit: 1, window: 1, penalty: {" + fields + "}}\n")})
	if err != nil {
		t.Fatal(err)
	}
	return set.Rules()[0].Penalty
}

func TestCooldownsGrowByTheFactorUpToTheGreatest(t *testing.T) {
	s := time.Second
	for fields, want := range map[string][]time.Duration{
		"":                                    {10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 600 * s, 600 * s},
		"cool_down: 1m, factor: 1":            {60 * s, 60 * s},
		"cool_down: 1s, factor: 1.5, max: 2s": {s, 1500 * time.Millisecond, 2 * s, 2 * s},
		"cool_down: 1s, max: 4s, ban_after: 5, ban: 1h":    {s, 2 * s, 4 * s, 4 * s, 4 * s, time.Hour, time.Hour},
		"cool_down: 1s, factor: 10, ban_after: 1, ban: 2h": {s, 2 * time.Hour},
		"cool_down: 20m": {20 * time.Minute, 20 * time.Minute},
		"cool_down: 10ms, factor: 100, max: 100d, forget: 399d": {10 * time.Millisecond, s, 100 * s, 10000 * s, 1000000 * s, 100 * 24 * time.Hour, 100 * 24 * time.Hour},
	} {
		p := penaltyOf(t, fields)
		var got []time.Duration
		for n := range want {
			d, _ := p.Of(int64(n + 1))
			got = append(got, d)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", fields, got, want)
		}
	}
}

func TestAPenaltyMayBanHotKeys(t *testing.T) {
	for fields, want := range map[string]struct {
		hot     time.Duration
		denials bool
	}{
		"":                        {0, true},
		"hot_key: 1m":             {time.Minute, false},
		"hot_key: 1m, after: 5":   {time.Minute, true},
		"hot_key: 2h, forget: 9h": {2 * time.Hour, true},
	} {
		p := penaltyOf(t, fields)
		if p.HotKey != want.hot || p.Denials != want.denials || p.Gate.Max() <= int64(want.hot/GateUnit) {
			t.Errorf("%s: %v, %v, gate of %d", fields, p.HotKey, p.Denials, p.Gate.Max())
		}
	}
}

func TestAPenaltyIsThreeLimits(t *testing.T) {
	p := penaltyOf(t, "after: 7, window: 90s, ban_after: 2, ban: 1h")
	if p.Strikes.String() != "penalty.strikes 7 per 1m30s" || p.Levels.Max() != 3 || p.Levels.Window() != 2*time.Hour || p.Gate.Max() != 360_001 {
		t.Errorf("%v, %v, %v", p.Strikes, p.Levels, p.Gate)
	}
	if _, ban := p.Of(2); ban {
		t.Error("a ban too early")
	}
	if _, ban := p.Of(3); !ban || !p.Has(p.Gate) || (*Penalty)(nil).Has(p.Gate) {
		t.Error("no ban")
	}
	for fields, want := range map[string]time.Duration{"": time.Hour, "max: 2h": 4 * time.Hour, "ban_after: 2, ban: 100d": 200 * 24 * time.Hour} {
		if p := penaltyOf(t, fields); p.Levels.Window() != want {
			t.Errorf("%s: %v", fields, p.Levels)
		}
	}
}

func TestMistakesInPenaltiesAreListed(t *testing.T) {
	for fields, want := range map[string]string{
		"penalty: yes":                                                "penalty is",
		"penalty: {afer: 3}":                                          "did you mean after?",
		"penalty: {after: 0}":                                         "penalty: after: 0 is out of range",
		"penalty: {after: 1001}":                                      "use a whole number from 1 to 1000",
		"penalty: {window: never}":                                    `penalty: window: "never"`,
		"penalty: {cool_down: 1ms}":                                   `penalty: cool_down: "1ms"`,
		"penalty: {cool_down: -5}":                                    `penalty: cool_down: "-5"`,
		"penalty: {cool_down: 1h, max: 1m}":                           "cool_down 1h0m0s is longer than max 1m0s",
		"penalty: {hot_key: 5ms}":                                     `penalty: hot_key: "5ms"`,
		"penalty: {max: 101d}":                                        "from 10ms to 100d",
		"penalty: {factor: 0.5}":                                      "penalty: factor",
		"penalty: {factor: 1e300}":                                    "use a number from 1 to 100",
		"penalty: {ban: 1h}":                                          "ban has no ban_after",
		"penalty: {ban_after: 3}":                                     "ban_after has no ban",
		"penalty: {forget: 1m}":                                       "forget is not longer than",
		"penalty: {ban_after: 2, ban: 19s}":                           "ban 19s is shorter than the cool-down 20s before it",
		"penalty: {}, consistency: leased":                            "must be strict",
		"penalty: {}, deny_all: true":                                 "denies everything already",
		"penalty: {}, limits: [{name: penalty, limit: 1, window: 1}]": "give the limit another name",
	} {
		_, err := Parse(File{"rules.yaml", []byte("rules:\n  - {id: a, limit: 1, window: 1, " + fields + "}\n")})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "rules.yaml:2:") {
			t.Errorf("%s: %v, want %q", fields, err, want)
		}
	}
}

func TestAMistakeInAPenaltyIsNotTakenForAnother(t *testing.T) {
	for _, fields := range []string{"ban_after: 101, ban: 1h", "ban_after: 3, ban: never"} {
		_, err := Parse(File{"rules.yaml", []byte("rules:\n  - {id: a, limit: 1, window: 1, penalty: {" + fields + "}}\n")})
		if problems, ok := errors.AsType[Problems](err); !ok || len(problems) != 1 {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

func TestPenaltiesThatSurpriseAreWarnedAbout(t *testing.T) {
	for fields, want := range map[string]string{
		"penalty: {factor: 1.01}":                           "cool-downs end with the 100th, 26.78s, which is less than max",
		"penalty: {hot_key: 1m}, by: [path]":                "by does not tell callers apart",
		"penalty: {}, by: [tier, ip]":                       "",
		"penalty: {after: 3}, by: [host, method, tier]":     "by does not tell callers apart",
		"penalty: {}, missing: shared":                      "they are punished for one another",
		"penalty: {factor: 1}":                              "",
		"penalty: {}, missing: skip":                        "",
		"penalty: {ban_after: 100, ban: 30s, factor: 1.01}": "",
	} {
		set, err := Parse(File{"rules.yaml", []byte("rules:\n  - {id: a, limit: 1, window: 1, " + fields + "}\n")})
		if err != nil {
			t.Fatal(fields, err)
		}
		if got := fmt.Sprint(set.Warnings()); !strings.Contains(got, want) || want == "" && len(set.Warnings()) > 0 {
			t.Errorf("%s: %s, want %q", fields, got, want)
		}
	}
}

func TestAFactorOfManyDigitsCostsLittle(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&text, "  - {id: r%d, limit: 1/s, penalty: {factor: 1.000123456789012345}}\n", i)
	}
	if bytes, err := costOf(text.String()); err != nil || bytes > 20<<20 {
		t.Errorf("%v, %d MB", err, bytes>>20)
	}
}

func TestShadowRulesPunishNoCaller(t *testing.T) {
	set, err := Parse(File{"rules.yaml", []byte("rules:\n  - {id: a, mode: shadow, limit: 1, window: 1, penalty: {}}\n")})
	if err != nil || len(set.Warnings()) != 1 || len(set.Penalties()) != 0 {
		t.Errorf("%v %v", err, set)
	}
}
