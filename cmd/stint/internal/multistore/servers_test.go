package multistore_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/postgresstore"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/storetest"
)

func TestRedisAndPostgresTogetherKeepTheContract(t *testing.T) {
	redis, err := redisstore.ParseURL("redis://" + redistest.Server(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := postgresstore.ParseURL(strings.Replace(pgtest.Start(t).URL(), "stint@", "stint:"+url.QueryEscape(pgtest.Password)+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Suite{Runs: 4, Steps: 12, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		redis, postgres := redis, postgres
		law := strings.NewReplacer(" ", "_", "/", ":").Replace(t.Name()[strings.IndexByte(t.Name(), '/')+1:])
		redis.Clock, redis.KeepFor, redis.Prefix = clock, time.Hour, law[:min(len(law), 64)]
		postgres.Clock, postgres.KeepFor, postgres.Timeout, postgres.Prefix = clock, time.Hour, 10*time.Second, redis.Prefix
		first, err := redisstore.New(redis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = first.Close() })
		second, err := postgresstore.New(postgres)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = second.Close() })
		return &scattered{Store: open(t, first, second)}
	}}.Run(t)
}
