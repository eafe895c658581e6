package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/redisstore"
)

// newStint waits longer than by default, so that a machine that is busy with
// other work still brings a run to its end.
func (s *redisServer) newStint() (*redisstore.Store, error) {
	return redisstore.New(redisstore.Options{Addrs: []string{s.addr()}, Timeout: 10 * time.Second})
}

// stint is the store as its users have it, on the server's own clock.
func (s *redisServer) stint(a allowance) (take, func(), error) {
	store, err := s.newStint()
	if err != nil {
		return nil, nil, err
	}
	t, err := takeOf(store, a)
	return t, func() { _ = store.Close() }, err
}

// loadBuckets asks Stint once for each key, as many at once as ever are.
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
	return <-problem // nil when there is none
}
