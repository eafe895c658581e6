package main

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
)

func newGoLimiter(limit int64, per time.Duration) (take, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(limit), Interval: per})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := s.Take(ctx, key)
		return err == nil && ok
	}, nil
}
