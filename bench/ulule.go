package main

import (
	"context"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func newUlule(a allowance) (take, error) {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: a.window(), Limit: a.burst})
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Get(ctx, key)
		return err == nil && !d.Reached
	}, nil
}
