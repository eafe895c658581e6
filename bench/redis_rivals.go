package main

import (
	"context"
	_ "embed"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/redisstore"
)

// networked is a contestant that keeps its states on a server.
type networked struct {
	name  string
	build func(allowance) (t take, leave func(), err error)
}

// The names of contestants over the network in results.
const (
	plainName = "plain EVALSHA, rueidis"
	rateName  = "redis_rate"
)

// contestants returns all contestants on this server, Stint first.
func (s *redisServer) contestants() []networked {
	return []networked{
		{stintName, s.stint},
		{plainName, s.plain},
		{rateName, s.redisRate},
		{"throttled, Redis store", s.throttled},
		{"ulule/limiter, Redis store", s.ulule},
	}
}

// client returns a client for the rivals. On two CPUs they are fastest with about 20
// connections. With one for each of 256 callers they are a tenth slower, and their
// slowest answers take longer.
func (s *redisServer) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr(), PoolSize: 20})
}

func (s *redisServer) redisRate(a allowance) (take, func(), error) {
	client, ctx := s.client(), context.Background()
	l := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: 1, Burst: int(a.burst), Period: a.every}
	return func(key string) bool {
		d, err := l.Allow(ctx, key, limit)
		return err == nil && d.Allowed == 1
	}, leaving(client), nil
}

func (s *redisServer) throttled(a allowance) (take, func(), error) {
	client := s.client()
	store, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, nil, err
	}
	t, err := throttledTake(store, a)
	return t, leaving(client), err
}

func (s *redisServer) ulule(a allowance) (take, func(), error) {
	client := s.client()
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, nil, err
	}
	return ululeTake(store, a), leaving(client), nil
}

func leaving(client *redis.Client) func() { return func() { _ = client.Close() } }

// newStint returns a store with a longer timeout than the default, so that a run
// completes on a busy machine.
func (s *redisServer) newStint() (*redisstore.Store, error) {
	return redisstore.New(redisstore.Options{Addrs: []string{s.addr()}, Timeout: 10 * time.Second})
}

// stint is the store as its users configure it, with the server's clock.
func (s *redisServer) stint(a allowance) (take, func(), error) {
	store, err := s.newStint()
	if err != nil {
		return nil, nil, err
	}
	t, err := takeOf(store, a)
	return t, func() { _ = store.Close() }, err
}

// loadBuckets takes each key once, with mostCallers concurrent callers.
func (s *redisServer) loadBuckets(keys []string) error {
	limit, err := compile(heldLong())
	if err != nil {
		return err
	}
	store, err := s.newStint()
	if err != nil {
		return err
	}
	defer store.Close()
	var wait sync.WaitGroup
	var next atomic.Int64
	problem := make(chan error, mostCallers)
	for range mostCallers {
		wait.Go(func() {
			for i := next.Add(1); i <= int64(len(keys)); i = next.Add(1) {
				if _, err := store.Take(context.Background(), stint.Claim{Key: keys[i-1], Limit: limit, Cost: 1}); err != nil {
					problem <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(problem)
	return <-problem // nil if all succeeded
}

// plainScript is a bucket on one key.
//
//go:embed plain.lua
var plainScript string

// plainArgs returns the arguments of the script for an allowance, with a cost of 1.
func plainArgs(a allowance) []string {
	p, q := int64(time.Second/time.Microsecond), a.every.Microseconds()
	d := gcd(p, q)
	return []string{micro(a.burst), decimal(p / d), decimal(q / d), decimal(a.window().Microseconds()), micro(1)}
}

func micro(units int64) string { return decimal(units * 1_000_000) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// plain calls the script through the client that Stint uses, which pipelines concurrent
// calls. Every call takes one key.
func (s *redisServer) plain(a allowance) (take, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr()}, DisableCache: true})
	if err != nil {
		return nil, nil, err
	}
	script, args, ctx := rueidis.NewLuaScript(plainScript), plainArgs(a), context.Background()
	return func(key string) bool {
		answer, err := script.Exec(ctx, client, []string{key}, args).ToString()
		return err == nil && answer[len(answer)-1] == '+' && len(answer) > 21
	}, client.Close, nil
}
