package contracttest

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/quorumstore"
	"github.com/stintdev/stint/storetest"
)

// TestQuorum runs the contract on three servers, with a prefix, and so a quorum of its own,
// for each law.
func TestQuorum(t *testing.T) {
	t.Parallel()
	var servers []string
	for range 3 {
		servers = append(servers, redistest.Server(t).Addr())
	}
	storetest.Suite{Runs: 20, Steps: 20, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		t.Helper()
		o := quorumstore.Options{
			Servers: servers, Clock: clock, KeepFor: time.Hour, Timeout: 10 * time.Second,
			Prefix: prefixOf(t),
		}
		if err := quorumstore.Init(t.Context(), o); err != nil && stint.CodeOf(err) != stint.CodeInvalid { // a second store of a law
			t.Fatal(err)
		}
		s, err := quorumstore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}.Run(t)
}
