package breaker

import "testing"

func mustNew(tb testing.TB, o Options) *Breaker {
	tb.Helper()
	b, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
