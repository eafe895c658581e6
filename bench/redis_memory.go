package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
)

// weighRedis measures the memory of a key on a server that holds many: Stint's token
// buckets, and hashes of two fields under the very same keys.
func weighRedis(ctx context.Context, o options, pins pinning, out io.Writer, b *bars) error {
	n := min(o.keys, 1_000_000)
	var names []string
	buckets, err := weigh(ctx, o.findRedis(), pins, n, func(s *redisServer) error {
		err := s.loadBuckets(identities(n))
		if err == nil {
			names, err = s.keys(ctx, n)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("token buckets: %w", err)
	}
	hashes, err := weigh(ctx, o.findRedis(), pins, n, func(s *redisServer) error { return s.loadHashes(ctx, names) })
	if err != nil {
		return fmt.Errorf("hashes: %w", err)
	}
	fmt.Fprintf(out, "\nredis memory, %d token buckets of %d-character identities, such as %q: %.1f bytes a key; hashes of two fields under the same keys: %.1f\n",
		n, identityLength, names[0], buckets, hashes)
	b.judge("redis: memory", buckets, 165, "bytes a key")
	b.judge("redis: memory beside a hash", buckets/hashes, 1, "of a hash of two fields")
	return nil
}

// weigh returns how many bytes per key a fresh server frees when it deletes n keys. What
// loading leaves behind (scripts, buffers) is not part of any key.
func weigh(ctx context.Context, program string, pins pinning, n int, load func(*redisServer) error) (perKey float64, err error) {
	s, err := startRedis(ctx, program, pins.server)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := load(s); err != nil {
		return 0, err
	}
	held, err := s.admin.DBSize(ctx).Result()
	if err != nil || held != int64(n) {
		return 0, fmt.Errorf("the server holds %d of %d keys: %w", held, n, err)
	}
	full, err := s.usedMemory(ctx)
	if err != nil {
		return 0, err
	}
	// Valkey frees memory after FLUSHALL has answered, unless asked to wait.
	if err := s.admin.Do(ctx, "flushall", "sync").Err(); err != nil {
		return 0, err
	}
	empty, err := s.usedMemory(ctx)
	return float64(full-empty) / float64(n), err
}

// keys returns the names of all keys on the server, about n.
func (s *redisServer) keys(ctx context.Context, n int) ([]string, error) {
	names := make([]string, 0, n)
	each := s.admin.Scan(ctx, 0, "*", 10_000).Iterator()
	for each.Next(ctx) {
		names = append(names, each.Val())
	}
	return names, each.Err()
}

// hashScript makes each key a hash of two fields with short names, tokens in micro-units
// and microseconds. It expires as a bucket does.
const hashScript = `for _, key in ipairs(KEYS) do
  redis.call('HSET', key, 't', ARGV[1], 'l', ARGV[2])
  redis.call('PEXPIRE', key, ARGV[3])
end`

// loadHashes makes a hash of every name.
func (s *redisServer) loadHashes(ctx context.Context, names []string) error {
	const together = 1000
	now, err := s.admin.Time(ctx).Result()
	if err != nil {
		return err
	}
	held := heldLong()
	for at := 0; at < len(names); at += together {
		some := names[at:min(at+together, len(names))]
		err := s.admin.Eval(ctx, hashScript, some, micro(held.burst-1), now.UnixMicro(), held.every.Milliseconds()).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}
