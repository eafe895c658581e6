package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

func TestOneCallerHasABoundedWeight(t *testing.T) {
	var counts canaryCounts
	began := time.Now()
	two := counts.of(&ruleset.Version{Number: 2, Canary: &ruleset.Canary{By: "api_key"}})
	side := &two.control
	side.folded = began
	allowed, denied := &rule.Outcome{Decision: stint.Decision{Allowed: true}, Binding: -1}, &rule.Outcome{List: rule.ListDeny}
	for i := range 200 {
		for range 5 {
			side.add(fmt.Sprint("good ", i), 1, allowed)
		}
	}
	for range 1_000_000 {
		side.add("flood", 1, denied)
	}
	side.add("peek", 0, denied)
	got := side.read(began.Add(5 * time.Second))
	if got.Requests < 980 || got.Requests > 1050 || got.Denied < 45 || got.Denied > 50 || got.Errors != 0 {
		t.Errorf("%+v, want 1000 requests of others and 50 of the flood", got)
	}
	if again := side.read(began.Add(5500 * time.Millisecond)); again != got {
		t.Errorf("%+v, want %+v: nothing has happened", again, got)
	}
	side.addError("good 1")
	if got = side.read(began.Add(10 * time.Second)); got.Errors != 1 {
		t.Errorf("%+v", got)
	}
	if same := counts.of(&ruleset.Version{Number: 2}); same != two {
		t.Error("the counts of the same canary begin anew")
	}
	next := counts.of(&ruleset.Version{Number: 4, Canary: &ruleset.Canary{}})
	if next == two || next.control.read(time.Now()) != (ruleset.Counts{}) {
		t.Error("the counts of the next canary do not begin anew")
	}
}

func BenchmarkOfWithoutACanary(b *testing.B) {
	v := &version{}
	v.surfaces[0] = surfaceRules{version: v}
	a := rule.Map{"api_key": "k"}
	for b.Loop() {
		if v.surfaces[0].Of(a) == nil {
			b.Fatal()
		}
	}
}

func BenchmarkOfWithACanary(b *testing.B) {
	set, err := rule.Parse(rule.File{Name: "a.yaml", Data: []byte("rules: []")})
	if err != nil {
		b.Fatal(err)
	}
	v := &version{set: set, canary: &canary{split: &ruleset.Canary{Share: 0.5, Seed: "seed"}}}
	v.canary.version = &version{}
	v.surfaces[0] = surfaceRules{version: v}
	a := rule.Map{"api_key": "sk_live_0123456789abcdef"}
	b.ReportAllocs()
	for b.Loop() {
		if v.surfaces[0].Of(a) == nil {
			b.Fatal()
		}
	}
}
