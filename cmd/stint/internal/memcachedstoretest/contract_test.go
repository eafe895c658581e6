package memcachedstoretest

import (
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/memcachedtest"
	"github.com/stintdev/stint/memcachedstore"
	"github.com/stintdev/stint/storetest"
)

// suite runs the contract of a store, with a prefix for each law.
func suite(t *testing.T, runs int, servers ...string) {
	t.Helper()
	storetest.Suite{Runs: runs, Steps: 12, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		s, err := memcachedstore.New(memcachedstore.Options{
			Servers: servers, Clock: clock, KeepFor: time.Hour, Timeout: 10 * time.Second,
			Prefix: strings.NewReplacer(" ", "_").Replace(t.Name()[strings.IndexByte(t.Name(), '/'):]),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}.Run(t)
}

func TestContract(t *testing.T) { suite(t, 15, memcachedtest.Start(t).Addr()) }

func TestContractOnTwoServers(t *testing.T) {
	suite(t, 15, memcachedtest.Start(t).Addr(), memcachedtest.Start(t).Addr())
}
