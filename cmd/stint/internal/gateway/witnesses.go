package gateway

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// witnesses limits how much each client tells about an upstream.
//
// The problem: a client chooses its requests, and can choose those that fail: a path that
// always answers 500, a query that takes too long. If every response counted, a client
// that sends more requests than the others could make any upstream look broken, and take
// it away from all.
//
// The approach: of the responses to one client address, one in a second counts, the
// first, whether it failed or not. What the circuit breakers see is then close to the
// share of clients that are not served, however many requests each of them sends. With a
// window of 10 s a client has at most ten responses in it, which is less than the default
// of MinimumCalls.
//
// The bound: a table of fixed size, in which clients share places at random. Clients of
// one place share its one response in a second, so more clients never count for more than
// that. The networks of one IPv6 client, a /64, count as one.
//
// The trade-off: failures are noticed later the fewer clients there are. Clients behind a
// proxy that is not trusted are one.
type witnesses struct {
	seed        maphash.Seed
	failedProbe atomic.Int64       // 1 + the place of the client whose probe failed last; 0: none
	latest      [1024]atomic.Int64 // for the clients of a place: when a response last counted, in Unix nanoseconds
}

const witnessEvery = time.Second

func newWitnesses() *witnesses { return &witnesses{seed: maphash.MakeSeed()} }

// counts reports whether a response to the client counts. A clock that was set back does
// not silence clients until it has caught up.
func (w *witnesses) counts(client netip.Addr, now time.Time) bool {
	place := &w.latest[w.place(client)]
	last, at := place.Load(), now.UnixNano()
	since := time.Duration(at - last)
	return (last == 0 || since.Abs() >= witnessEvery) && place.CompareAndSwap(last, at)
}

func (w *witnesses) place(client netip.Addr) int {
	if client.Is6() {
		client = netip.PrefixFrom(client, 64).Masked().Addr()
	}
	return int(maphash.Comparable(w.seed, client) % uint64(len(w.latest)))
}
