package contracttest

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/postgresstore"
	"github.com/stintdev/stint/storetest"
)

// postgres runs the contract of a store, with a prefix for each law.
func postgres(t *testing.T, address string, runs int) {
	t.Helper()
	t.Parallel()
	o, err := postgresstore.ParseURL(strings.Replace(address, "stint@", "stint:"+url.QueryEscape(pgtest.Password)+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Suite{Runs: runs, Steps: 12, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		o := o
		o.Clock, o.KeepFor, o.Timeout = clock, time.Hour, 10*time.Second
		o.Prefix = prefixOf(t)
		s, err := postgresstore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}.Run(t)
}

func TestPostgres(t *testing.T) { postgres(t, pgtest.Start(t).URL(), 15) }

func TestPostgresByPgBouncer(t *testing.T) {
	postgres(t, pgtest.Start(t).PgBouncer("default_pool_size = 4").URL(), 5)
}
