package retrybudget

import "testing"

// The zero Budget behaves like one with zero Options, whichever method is called first.
func TestZeroBudget(t *testing.T) {
	for name, use := range map[string]func(b *Budget){
		"Request": func(b *Budget) { b.Request() }, "Retry": func(b *Budget) { b.Retry() }, "Refund": func(b *Budget) { b.Refund() }, "Usage": func(b *Budget) { b.Usage() },
	} {
		var b Budget
		use(&b)
		retries := 0
		for b.Retry() {
			retries++
		}
		if retries < 9 || retries > 11 {
			t.Errorf("%s: %d retries, want ten", name, retries)
		}
	}
}
