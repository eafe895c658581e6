package main

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// networked is a contestant that keeps its states on a server.
type networked struct {
	name  string
	build func(allowance) (t take, leave func(), err error)
}

// The names that results over the network are read by.
const (
	plainName = "plain EVALSHA, rueidis"
	rateName  = "redis_rate"
)

// contestants is everyone who can use this server, Stint first.
func (s *redisServer) contestants() []networked {
	return []networked{
		{stintName, s.stint},
		{plainName, s.plain},
		{rateName, s.redisRate},
		{"throttled, Redis store", s.throttled},
		{"ulule/limiter, Redis store", s.ulule},
	}
}

// client is the rivals' client. On two CPUs they are fastest with about so
// many connections: with one for each of 256 callers they are a tenth slower,
// and their slowest answers take longer.
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
	client, ctx := s.client(), context.Background()
	store, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(1, a.every), MaxBurst: int(a.burst) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, nil, err
	}
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}, leaving(client), nil
}

func (s *redisServer) ulule(a allowance) (take, func(), error) {
	client, ctx := s.client(), context.Background()
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, nil, err
	}
	l := limiter.New(store, limiter.Rate{Period: a.window(), Limit: a.burst})
	return func(key string) bool {
		d, err := l.Get(ctx, key)
		return err == nil && !d.Reached
	}, leaving(client), nil
}

func leaving(client *redis.Client) func() { return func() { _ = client.Close() } }
