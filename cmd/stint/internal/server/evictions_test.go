package server

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
)

func TestEvictionsAreNewsOnceAMinuteOfQuietIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var lost atomic.Uint64
		logs := newLogBuffer()
		go watchEvictions(ctx, func() stint.MemoryStats { return stint.MemoryStats{Evictions: lost.Load()} }, slog.New(slog.NewTextHandler(logs, nil)))
		for _, step := range []struct {
			when string
			wait time.Duration
			lose bool
			want int
		}{
			{"nothing is lost", 10 * time.Second, false, 0},
			{"the first is lost", 2 * time.Second, true, 1},
			{"it goes on", 30 * time.Second, true, 1},
			{"after a minute of quiet", 61 * time.Second, false, 1},
			{"it begins again", 2 * time.Second, true, 2},
		} {
			if step.lose {
				lost.Add(1)
			}
			time.Sleep(step.wait) // advances the clock of the bubble
			synctest.Wait()
			if got := strings.Count(logs.String(), "store full"); got != step.want {
				t.Errorf("%s: %d lines, want %d", step.when, got, step.want)
			}
		}
	})
}

func TestFullShareOfCallersIsLoggedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var refused atomic.Uint64
		logs := newLogBuffer()
		go watchEvictions(ctx, func() stint.MemoryStats {
			return stint.MemoryStats{Callers: stint.CallerStats{Refused: refused.Load()}}
		}, slog.New(slog.NewTextHandler(logs, nil)))
		for range 30 { // a flood
			refused.Add(1000)
			time.Sleep(time.Second) // advances the clock of the bubble
		}
		synctest.Wait()
		if got := strings.Count(logs.String(), "limits that callers bring is full"); got != 1 {
			t.Errorf("%d lines, want 1", got)
		}
		if strings.Contains(logs.String(), "store full") {
			t.Error("the log says that the store is full")
		}
	})
}

func TestUsedUpBudgetOfASharedStoreIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var refused atomic.Uint64
		logs := newLogBuffer()
		go watchBudget(ctx, func() metrics.SharedStats {
			return metrics.SharedStats{Callers: &metrics.BudgetStats{Bytes: 7, Refused: refused.Load()}}
		}, slog.New(slog.NewTextHandler(logs, nil)))
		for range 30 { // a flood
			refused.Add(1000)
			time.Sleep(time.Second) // advances the clock of the bubble
		}
		synctest.Wait()
		if got := strings.Count(logs.String(), "budget of limits that callers bring is used up"); got != 1 || !strings.Contains(logs.String(), "bytes=7 refused=") {
			t.Errorf("%d lines:\n%s", got, logs)
		}
	})
}
