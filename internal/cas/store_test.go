package cas_test

import (
	"testing"

	"github.com/stintdev/stint/internal/cas"
)

// newStore returns a store that is closed with the test. It announces itself only if the
// options say how often.
func newStore(tb testing.TB, b cas.Backend, o cas.Options) *cas.Store {
	tb.Helper()
	if o.Name == "" {
		o.Name = "casmem"
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = -1
	}
	s := cas.New(b, o)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}
