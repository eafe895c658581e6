package contracttest

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/memcachedtest"
	"github.com/stintdev/stint/memcachedstore"
	"github.com/stintdev/stint/storetest"
)

// memcached runs the contract of a store, with a prefix for each law.
func memcached(t *testing.T, runs int, servers ...string) {
	t.Helper()
	t.Parallel()
	storetest.Suite{Runs: runs, Steps: 12, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		s, err := memcachedstore.New(memcachedstore.Options{
			Servers: servers, Clock: clock, KeepFor: time.Hour, Timeout: 10 * time.Second,
			Prefix: prefixOf(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}.Run(t)
}

func TestMemcached(t *testing.T) { memcached(t, 15, memcachedtest.Start(t).Addr()) }

func TestMemcachedOnTwoServers(t *testing.T) {
	memcached(t, 15, memcachedtest.Start(t).Addr(), memcachedtest.Start(t).Addr())
}
