package server

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
)

func TestAHotKeyIsReportedAndBanned(t *testing.T) {
	s := run(t, Config{HotKeyRate: 500, RESP: "127.0.0.1:0", Rules: rulesFile(t, `
rules:
  - {id: watched, match: {path: /watched}, limit: 100000, window: 1s}
  - {id: banned, match: {path: /banned}, limit: 100000, window: 1s, penalty: {hot_key: 1m}}
`)})
	check := func(key, path string) string { return `{"attributes":{"api_key":"` + key + `","path":"` + path + `"}}` }
	send := func(key, path string) (last string) {
		t.Helper()
		for range 6 {
			items := answersOf(t, s.post("http", "/v1/batch", batchOf(slices.Repeat([]string{check(key, path)}, 100)...)))
			last = items[len(items)-1]
		}
		return last
	}
	if got := send("sk_live_12345", "/watched"); !strings.Contains(got, `"allowed":true`) {
		t.Errorf("without hot_key: %s", got)
	}
	s.logs.wait(t, `msg="hot key" rule=watched key=sk_l…`)
	got := send("sk_live_12345", "/banned")
	reason := "Banned until " + s.clock.time().Add(time.Minute).UTC().Format(time.RFC3339) + " after too many requests per second"
	for _, want := range []string{`"allowed":false`, `"penalty":"hot_key"`, reason, `"retry_after_ms":60000`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if got := s.post("http", "/v1/check", check("other", "/banned")); !strings.Contains(got.body, `"allowed":true`) {
		t.Errorf("another key: %s", got.body)
	}
	s.wantMetric(`stint_penalties_total{penalty="hot_key",rule="banned"} 1`, true)
	s.logs.wait(t, `kind=hot_key for=1m0s`)
	for late := time.Now().Add(patience); strings.Contains(s.get("admin", "/metrics").body, "\nstint_hot_keys 0\n"); {
		if send("sk_live_12345", "/watched"); time.Now().After(late) {
			t.Fatal("the metric shows no hot key")
		}
	}
	if strings.Contains(s.logs.String(), "sk_live_12345") {
		t.Error("the log shows the key")
	}
}

func TestWithoutASketchNothingIsCounted(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{})
	if got := countKeys(store, nil, nil); got != stint.Store(store) {
		t.Errorf("%T is between a check and its store", got)
	}
}

func TestARuleWithoutItsHotKeyRateIsWarnedAbout(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, "rules: [{id: a, limit: 1, window: 1s, penalty: {hot_key: 1m}}]\n")})
	s.logs.wait(t, "a penalty has hot_key, but hot keys are not watched for")
}

func TestHotKeysAreLoggedOnceAMinuteAndWithinABound(t *testing.T) {
	logs := newLogBuffer()
	l := hotLog{log: slog.New(slog.NewTextHandler(logs, nil)), logged: map[topkeys.Key]time.Time{}}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lines := func(seconds int, hot ...topkeys.Key) int {
		before := strings.Count(logs.String(), "\n")
		for range seconds {
			now = now.Add(time.Second)
			l.note(hot, now)
		}
		return strings.Count(logs.String(), "\n") - before
	}
	if got := lines(59, topkeys.Key{Rule: "api", Key: "k", PerSecond: 5}); got != 1 {
		t.Errorf("%d lines in a minute", got)
	}
	if got := lines(60, topkeys.Key{Rule: "api", Key: "k", PerSecond: 6}); got != 1 {
		t.Errorf("%d lines in the next minute", got)
	}
	now = now.Add(time.Hour)
	var many []topkeys.Key
	for i := range 4000 {
		many = append(many, topkeys.Key{Rule: "api", Key: fmt.Sprint("key", i)})
	}
	if got := lines(60, many...); got != 10 || len(l.logged) > hotLines {
		t.Errorf("%d lines for 4000 keys", got)
	}
	if lines(1, many...); !strings.Contains(logs.String(), "suppressed=239400") {
		t.Errorf("the next line does not count the others:\n%s", logs.String()[max(0, len(logs.String())-300):])
	}
}
