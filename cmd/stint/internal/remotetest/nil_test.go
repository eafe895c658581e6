package remotetest

import (
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/remotestore"
)

// A constructor whose error was ignored returns a nil pointer, which must not hide in an
// interface.
func TestNilStoresAreNotWrapped(t *testing.T) {
	for name, store := range map[string]stint.Store{"redisstore": (*redisstore.Store)(nil), "remotestore": (*remotestore.Store)(nil)} {
		_, byGuard := guard.New(store, guard.Options{})
		_, byLease := lease.New(store, lease.Options{})
		for _, err := range []error{byGuard, byLease} {
			if err == nil || !strings.Contains(err.Error(), "the store is nil") {
				t.Errorf("%s: %v, want an error that says it is nil", name, err)
			}
		}
	}
}
