package impact

import (
	"fmt"
	"testing"
	"time"
)

// The load that rules admit in addition is compared with the rules in force, so a caller above
// its limit does not count as admitted by the same rules.
func TestReplaySaysWhatAChangeWouldAdmit(t *testing.T) {
	l := newLive(t, "rules: [{id: r, limit: 10, window: 60}]")
	l.sample.HashKey = func(key string) string { return "hash of " + key }
	for i := range 600 {
		l.request("sk_live_customer_" + string(rune('a'+i%2)))
		l.time = l.time.Add(10 * time.Millisecond)
	}
	if got := l.replay("rules: [{id: r, limit: 10, window: 60}]"); got.Admitted != 0 || got.Denied != 0 || len(got.AdmittedKeys) != 0 {
		t.Errorf("the same rules: %+v", got)
	}
	got := l.replay("rules: [{id: r, limit: 30, window: 60}]")
	if got.Admitted < 40 || got.Admitted > 46 || got.AdmittedCallers != 2 || got.Denied != 0 || len(got.AdmittedKeys) != 2 || got.AdmittedShare < 1.8 || got.AdmittedShare > 2.2 {
		t.Errorf("%+v", got)
	}
	first := got.AdmittedKeys[0]
	if first.Rule != "r" || first.Key != "sk_liv…" || first.Hash[:len(first.Hash)-1] != "hash of sk_live_customer_" || got.AdmittedKeys[1].Hash == first.Hash {
		t.Errorf("%+v", got.AdmittedKeys)
	}
	if got := l.replay("rules: []"); got.Admitted < 570 {
		t.Errorf("%+v", got)
	}
}

// A change may deny some callers and admit others.
func TestAChangeHasTwoSides(t *testing.T) {
	l := newLive(t, `{tiers: {big: {api_key_pattern: "big_*", limit: 100, window: 60}, small: {api_key_pattern: "small_*", limit: 10, window: 60}}, rules: [{id: r, by: [api_key]}]}`)
	for i := range 50 {
		l.request(fmt.Sprint("big_", i%2))
		l.request(fmt.Sprint("small_", i%2))
		l.time = l.time.Add(time.Millisecond)
	}
	got := l.replay(`{tiers: {big: {api_key_pattern: "big_*", limit: 10, window: 60}, small: {api_key_pattern: "small_*", limit: 20, window: 60}}, rules: [{id: r, by: [api_key]}]}`)
	if got.Denied != 30 || got.Callers != 2 || got.Admitted != 20 || got.AdmittedCallers != 2 {
		t.Errorf("%+v", got)
	}
}

// A rule that counts by path has one key, whose requests are those of many callers.
func TestASharedKeyHasManyCallers(t *testing.T) {
	const open, shared = "rules: [{id: r, by: [api_key], limit: 100, window: 60}]", "rules: [{id: r, by: [path], limit: 10, window: 60}]"
	l := newLive(t, open)
	for i := range 200 {
		l.request(fmt.Sprint("sk_", i%50))
	}
	if got := l.replay(shared); got.Denied != 190 || got.Callers != 50 || len(got.Keys) != 1 {
		t.Errorf("denied: %+v", got)
	}
	l = newLive(t, shared)
	for i := range 200 {
		l.request(fmt.Sprint("sk_", i%50))
	}
	if got := l.replay(open); got.Admitted != 190 || got.AdmittedCallers != 50 || len(got.AdmittedKeys) != 1 {
		t.Errorf("admitted: %+v", got)
	}
}
