package main

import (
	"context"

	"github.com/sethvargo/go-limiter/memorystore"
)

func newGoLimiter(a allowance) (take, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(a.burst), Interval: a.window()})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := s.Take(ctx, key)
		return err == nil && ok
	}, nil
}
