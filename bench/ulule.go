package main

import (
	"context"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func newUlule(limit int64, per time.Duration) (take, error) {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: per, Limit: limit})
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Get(ctx, key)
		return err == nil && !d.Reached
	}, nil
}
