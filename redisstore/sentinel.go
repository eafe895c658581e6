package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
)

// sentinelInterval is the interval at which the sentinels are asked for the master.
const sentinelInterval = time.Second

// sentinels asks the sentinels for the master. It connects to each sentinel for each
// question: questions are rare, and a lasting connection would need supervision.
type sentinels struct{ dialer *dialer }

// newWatched returns the node of the master that the sentinels name. Until ctx ends,
// the node switches to another master when the sentinels name one.
func newWatched(ctx context.Context, d *dialer) *node {
	s := &sentinels{d}
	n := &node{dialer: d, resolve: s.master}
	d.every(ctx, sentinelInterval, func() { n.follow(ctx, s) })
	return n
}

// follow drops the connection to a server that is not the master any more. A master
// that was cut off from its sentinels would keep answering.
func (n *node) follow(ctx context.Context, s *sentinels) {
	c := n.conn.Load()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.dialer.opts.Timeout)
	defer cancel()
	if addr, err := s.master(ctx); err == nil && addr != c.addr {
		n.dialer.log.Info("the sentinels name another master", "master", addr, "before", c.addr)
		n.lose(c)
	}
}

// master returns the address that most of the answering sentinels name. In a tie the
// sentinel that is first in Addrs decides.
func (s *sentinels) master(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.dialer.opts.Timeout/2) // a silent sentinel must not use up the time to connect
	defer cancel()
	addrs := s.dialer.opts.Addrs
	names, errs := make([]string, len(addrs)), make([]error, len(addrs))
	var asked sync.WaitGroup
	for i, addr := range addrs {
		asked.Go(func() { names[i], errs[i] = s.ask(ctx, addr) })
	}
	asked.Wait()
	if best := mostNamed(names); best != "" {
		return best, nil
	}
	return "", cmp.Or(errs...) // of the first sentinel; the other errors seldom differ
}

func mostNamed(names []string) string {
	votes := map[string]int{}
	for _, n := range names {
		if n != "" {
			votes[n]++
		}
	}
	return slices.MaxFunc(append(names, ""), func(a, b string) int { return cmp.Compare(votes[a], votes[b]) })
}

// ask asks one sentinel. It explains its errors.
func (s *sentinels) ask(ctx context.Context, addr string) (string, error) {
	c := newConn(addr)
	defer context.AfterFunc(ctx, c.cut)()
	client, err := rueidis.NewClient(s.dialer.clientOption(c, 0, s.dialer.opts.sentinelLogin, &s.dialer.sentinel))
	c.client = client
	defer c.close()
	if err != nil {
		return "", s.dialer.explain(unsent(err), addr)
	}
	pair, err := client.Do(ctx, client.B().SentinelGetMasterAddrByName().Master(s.dialer.opts.Master).Build()).AsStrSlice()
	if rueidis.IsRedisNil(err) || err == nil && len(pair) != 2 {
		return "", s.unknownMaster(addr)
	}
	if err != nil {
		return "", s.dialer.explain(unsent(err), addr)
	}
	return reachable(pair[0], pair[1], addr), nil
}

func (s *sentinels) unknownMaster(addr string) error {
	return &stint.Error{
		Code: stint.CodeUnavailable, Kind: "sentinel",
		Problem: fmt.Sprintf("the sentinel %s knows no master %q", addr, s.dialer.opts.Master),
		Mend:    "use the name that SENTINEL MASTERS shows",
	}
}
