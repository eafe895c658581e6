package penalty

import (
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// BenchmarkTake measures one check of a rule: by the store alone, by the
// punishing store, and for a rule with a penalty.
func BenchmarkTake(b *testing.B) {
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte("rules:\n" +
		"  - {id: plain, match: {path: /plain}, limit: 90000000, window: 1s}\n" +
		"  - {id: hard, match: {path: /hard}, limit: 90000000, window: 1s, penalty: {}}\n")})
	if err != nil {
		b.Fatal(err)
	}
	memory := stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})
	punishing := New(memory, &heard{}, nil)
	punishing.Use(set)
	for _, c := range []struct {
		name, path string
		store      stint.Store
	}{{"store", "/plain", memory}, {"plain", "/plain", punishing}, {"penalty", "/hard", punishing}} {
		b.Run(c.name, func(b *testing.B) {
			attributes := rule.Map{"api_key": "sk_live_12345", "path": c.path}
			var o rule.Outcome
			b.ReportAllocs()
			for b.Loop() {
				if err := set.DecideInto(b.Context(), c.store, attributes, 1, &o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
