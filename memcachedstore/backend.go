package memcachedstore

import (
	"bytes"
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/storekit"
)

// backend reads and writes items: a [cas.Backend] that is [cas.Sharded] and a [cas.Locker].
// It returns no time: Memcached tells whole seconds.
type backend struct {
	prefix  string
	servers []*server
	seeds   []uint64 // of the servers
}

func newBackend(o *Options) *backend {
	b := &backend{prefix: o.Prefix}
	for _, name := range o.Servers {
		b.servers = append(b.servers, newServer(name, o.Conns))
		b.seeds = append(b.seeds, seedOf(name))
	}
	return b
}

// Shards implements [cas.Sharded].
func (b *backend) Shards() (names []string) {
	for _, s := range b.servers {
		names = append(names, s.name)
	}
	return names
}

// ShardOf implements [cas.Sharded].
func (b *backend) ShardOf(key string) int { return shardOf(b.seeds, key) }

func (b *backend) serverOf(key string) *server { return b.servers[b.ShardOf(key)] }

// key returns a function that appends the key in Memcached of an item.
func (b *backend) key(key string) func([]byte) []byte {
	return func(to []byte) []byte { return appendKey(to, b.prefix, key) }
}

// Load implements [cas.Backend].
func (b *backend) Load(ctx context.Context, loads []cas.Load) (now time.Time, err error) {
	_, err = b.serverOf(loads[0].Key).do(ctx, true, func(c *conn) error {
		for i := range loads {
			loads[i].Item = cas.Item{} // of an attempt that failed
		}
		c.out, c.keys = c.out[:0], c.keys[:0]
		c.gets(len(loads), func(to []byte, i int) []byte { return appendKey(to, b.prefix, loads[i].Key) })
		if err := c.send(); err != nil {
			return err
		}
		return c.items(func(i int, item cas.Item) { loads[i].Item = item })
	})
	return now, err
}

// Swap implements [cas.Backend].
func (b *backend) Swap(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	s := b.serverOf(swaps[0].Key)
	sent, err := s.do(ctx, false, func(c *conn) error {
		b.writes(c, swaps)
		kept := b.readBack(c, swaps)
		if err := c.send(); err != nil {
			return err
		}
		if err := readOutcomes(c, s.name, swaps); err != nil || len(kept) == 0 {
			return err
		}
		return readVersions(c, kept)
	})
	settle(swaps, sent, err)
	return now, nil
}

// readBack adds the command that reads what the swaps have written, for the versions that
// the server gave the items: the answers to the writes do not tell them. It returns the swaps
// whose versions the store needs.
func (b *backend) readBack(c *conn, swaps []cas.Swap) (kept []*cas.Swap) {
	for i := range swaps {
		if swaps[i].Keep {
			kept = append(kept, &swaps[i])
		}
	}
	if len(kept) > 0 {
		c.gets(len(kept), func(to []byte, i int) []byte { return appendKey(to, b.prefix, kept[i].Key) })
	}
	return kept
}

// readVersions reads the versions of items that were just written. An item with another value
// has been written by another node since.
func readVersions(c *conn, kept []*cas.Swap) error {
	return c.items(func(i int, item cas.Item) {
		if w := kept[i]; w.Outcome == cas.Done && bytes.Equal(item.Value, w.Value) {
			w.Written = item.Version
		}
	})
}

// writes adds the commands of swaps.
func (b *backend) writes(c *conn, swaps []cas.Swap) {
	for i := range swaps {
		w := &swaps[i]
		if expiry := expiryOf(w.TTL, c.now()); w.Old == 0 {
			c.add(b.key(w.Key), expiry, w.Value)
		} else {
			c.compareAndSwap(b.key(w.Key), expiry, w.Old, w.Value)
		}
	}
}

// readOutcomes reads the answers to the commands of swaps.
func readOutcomes(c *conn, server string, swaps []cas.Swap) error {
	for i := range swaps {
		line, err := c.line()
		if err != nil {
			return err
		}
		switch w := &swaps[i]; string(line) {
		case "STORED":
			w.Outcome = cas.Done
		case "NOT_FOUND":
			w.Outcome, w.Known = cas.Lost, true // there is no item
		case "EXISTS", "NOT_STORED":
			w.Outcome = cas.Lost
		default:
			if w.Err, err = refusedWrite(line, server); err != nil {
				return err
			}
			w.Outcome = cas.Failed
		}
	}
	return nil
}

// refusedWrite returns the error of a write that the server refused, as a reason, if it
// answers the commands that follow. Any other answer ends the connection.
func refusedWrite(line []byte, server string) (reason, broken error) {
	broken = refusalOf(line)
	answer, refused := broken.(*refusal) //nolint:errorlint // refusalOf wraps nothing
	if !refused {
		return nil, broken
	}
	if e := answer.explain(server); e.Code != stint.CodeInternal {
		return e, nil
	}
	return nil, broken
}

// settle gives the swaps without an outcome that of the whole call.
func settle(swaps []cas.Swap, sent bool, err error) {
	for i := range swaps {
		w := &swaps[i]
		if err == nil || w.Outcome != cas.Unknown {
			continue
		}
		if w.Err = err; !sent {
			w.Outcome = cas.Failed
		}
	}
}

// The lock of an item keeps out those that have lost it several times, and not those that
// write it for the first time. It expires by itself if its node stops.
const (
	lockExpiry = 2 // s; Memcached takes up to a second off
	// lockWait is the longest wait for a lock. The round then goes on without one.
	lockWait  = 100 * time.Millisecond
	lockPause = time.Millisecond
)

// Locked implements [cas.Locker] by an item of its own, which add makes for one node alone.
func (b *backend) Locked(ctx context.Context, keys []string, decide func([]cas.Item, time.Time) []cas.Swap) ([]cas.Swap, error) {
	key, token := keys[0], []byte(rand.Text())
	s := b.serverOf(key)
	var item, lock cas.Item
	for end := time.Now().Add(lockWait); ; {
		var err error
		if item, lock, err = b.lock(ctx, s, key, token); err != nil {
			return nil, err
		}
		if lock.Version != 0 || time.Now().After(end) {
			break
		}
		select {
		case <-time.After(lockPause + mathrand.N(lockPause)):
		case <-ctx.Done():
			return nil, storekit.Ended(ctx, false)
		}
	}
	swaps := decide([]cas.Item{item}, time.Time{})
	b.unlock(ctx, s, key, lock, swaps)
	return swaps, nil
}

// lock tries to lock an item, and reads it in the same round trip. The lock has a version
// if it was gained.
func (b *backend) lock(ctx context.Context, s *server, key string, token []byte) (item, lock cas.Item, err error) {
	_, err = s.do(ctx, false, func(c *conn) error {
		lockKey := func(to []byte) []byte { return appendLockKey(to, b.prefix, key) }
		c.add(lockKey, lockExpiry, token)
		c.gets(2, func(to []byte, i int) []byte {
			if i == 0 {
				return appendKey(to, b.prefix, key)
			}
			return lockKey(to)
		})
		if err := c.send(); err != nil {
			return err
		}
		line, err := c.line()
		if err != nil {
			return err
		}
		if text := string(line); text != "STORED" && text != "NOT_STORED" {
			return refusalOf(line)
		}
		return c.items(func(i int, found cas.Item) {
			if i == 0 {
				item = found
			} else if slices.Equal(found.Value, token) {
				lock = found
			}
		})
	})
	return item, lock, err
}

// unlock makes the swaps and removes the lock in one round trip. It removes only its own
// lock: it replaces the lock, if it is still the same, by one that has expired.
func (b *backend) unlock(ctx context.Context, s *server, key string, lock cas.Item, swaps []cas.Swap) {
	sent, err := s.do(ctx, false, func(c *conn) error {
		b.writes(c, swaps)
		if lock.Version != 0 {
			c.compareAndSwap(func(to []byte) []byte { return appendLockKey(to, b.prefix, key) }, expired, lock.Version, nil)
		}
		if err := c.send(); err != nil {
			return err
		}
		if err := readOutcomes(c, s.name, swaps); err != nil || lock.Version == 0 {
			return err
		}
		_, err := c.line()
		return err
	})
	settle(swaps, sent, err)
}

// expired is the expiry of an item that is gone at once.
const expired = -1

func (b *backend) close() {
	for _, s := range b.servers {
		s.close()
	}
}
