package quorumstore

import (
	"context"
	"errors"
	"sync"
)

// Clear deletes all keys of the store's prefix from its servers: the counts, and the marks that make
// the servers a quorum. It is for a prefix that nobody else uses, such as that of a replay, and the
// store decides nothing after it. It returns an error if a server has not deleted all: what is left
// of the counts expires by itself, and a mark does not.
func (s *Store) Clear(ctx context.Context) error {
	if !s.made() {
		return errNotMade
	}
	s.end()
	_ = s.store.Close() // ends the heartbeat, and returns no error
	s.ended.Wait()
	if err := s.backend.retire(ctx); err != nil {
		return err
	}
	errs := make([]error, len(s.servers))
	var all sync.WaitGroup
	for i, server := range s.servers {
		all.Go(func() { errs[i] = server.clear(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// clear deletes the mark and the rows. Without its mark, the server refuses what is still under way.
// It has keys expire at once, which needs no right that the store does not need anyway.
func (s *redisServer) clear(ctx context.Context) error {
	once := func(f func(*conn) error) error {
		ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		return s.do(ctx, false, f)
	}
	if err := once(func(c *conn) error { return c.expire(s.markKey) }); err != nil {
		return err
	}
	for cursor := ""; cursor != "0"; {
		if cursor == "" {
			cursor = "0"
		}
		err := once(func(c *conn) error {
			rows, next, err := s.page(c, cursor)
			if err == nil {
				err = c.expire(rows...)
			}
			cursor = next
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// expire replaces values by empty ones that expire at once.
func (c *conn) expire(keys ...string) (err error) {
	if len(keys) == 0 {
		return nil
	}
	c.begin()
	for _, key := range keys {
		c.command(5, "SET")
		for _, word := range []string{key, "", "PX", "1"} {
			c.word(word)
		}
	}
	if err := c.send(); err != nil {
		return err
	}
	for range keys {
		if _, failed := c.reply(); failed != nil {
			answer, refused := errors.AsType[*refusal](failed)
			if !refused {
				return failed
			}
			err = answer
		}
	}
	return err
}
