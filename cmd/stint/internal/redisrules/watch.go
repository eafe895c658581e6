package redisrules

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// timeout bounds connecting, and waiting for a reply.
const timeout = time.Second

// withDefaults returns the options of a client with those that the rules need.
func withDefaults(o rueidis.ClientOption) rueidis.ClientOption {
	o.ClientName, o.Sentinel.ClientName = "stint-rules", "stint-rules"
	o.Dialer = net.Dialer{Timeout: timeout, KeepAlive: timeout}
	o.ConnWriteTimeout, o.PipelineMultiplex, o.DisableCache = timeout, -1, true
	o.RetryDelay = retryDelay
	return o
}

// retryDelay retries a read whose connection has ended, and gives up soon when
// there is no connection. Commands that change versions are never retried.
func retryDelay(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts > 5 {
		return -1
	}
	return time.Duration(attempts) * 20 * time.Millisecond
}

// Watch listens for announcements and polls.
func (s *Source) Watch(ctx context.Context, changed func()) {
	ruleset.Hear(ctx, changed, s.listen, s.log)
}

// listen receives announcements until the subscription fails. It calls changed
// once after subscribing, for versions that were published before.
func (s *Source) listen(ctx context.Context, changed func()) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { changed() })
	return c.Receive(ctx, c.B().Subscribe().Channel(s.name).Build(), func(rueidis.PubSubMessage) { changed() })
}

// Announce publishes the state of a node.
func (s *Source) Announce(ctx context.Context, n ruleset.Node) error {
	text, err := ruleset.EncodeNode(n)
	if err != nil {
		return err
	}
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	lasts := strconv.FormatInt(ruleset.ForgetAfter.Milliseconds(), 10)
	err = s.announce.Exec(ctx, c, []string{s.key("nodes"), s.key("seen")}, []string{n.ID, text, lasts}).Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		return s.explain(err)
	}
	return nil
}

// Nodes lists the nodes that have announced themselves.
func (s *Source) Nodes(ctx context.Context) ([]ruleset.Node, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	texts, err := c.Do(ctx, c.B().Hvals().Key(s.key("nodes")).Build()).AsStrSlice()
	if err != nil {
		return nil, s.explain(err)
	}
	return ruleset.DecodeNodes(texts), nil
}

// Secret returns the secret of all nodes.
func (s *Source) Secret(ctx context.Context, proposed string) (string, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	key := s.key("secret")
	text, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		if err := c.Do(ctx, c.B().Set().Key(key).Value(proposed).Nx().Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return "", s.explain(err)
		}
		text, err = c.Do(ctx, c.B().Get().Key(key).Build()).ToString() // another node may have been first
	}
	if err == nil {
		err = ruleset.CheckSecret(text)
	}
	if err != nil {
		return "", fmt.Errorf("key %s: %w", key, s.explain(err))
	}
	return text, nil
}
