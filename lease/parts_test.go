package lease

import (
	"testing"

	"github.com/stintdev/stint"
)

// Limits that callers make up do not fill the memory.
func TestSoManyPartsAreKnown(t *testing.T) {
	var p parts
	for range maxParts + 100 {
		l, err := stint.PerMinute(600).Compile()
		if err != nil {
			t.Fatal(err)
		}
		if made := p.of(l); made != p.of(l) || made.limit.Max() != 570 {
			t.Fatalf("%+v", made)
		}
	}
	known := 0
	p.known.Range(func(_, _ any) bool { known++; return true })
	if known > maxParts {
		t.Errorf("%d parts are known", known)
	}
}
