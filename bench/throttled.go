package main

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

func newThrottled(a allowance) (take, error) {
	s, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(1, a.every), MaxBurst: int(a.burst) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(s, quota)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}, nil
}
