package lease

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stintdev/stint"
)

// A background goroutine renews leases before they are used up, and refunds the tokens
// that are left when they end.

const (
	ticks           = 16  // ticks in one L; each renews the keys that run low
	sweepTicks      = 8   // ticks in which every key is swept once
	jobsPerCall     = 128 // jobs in one call
	concurrentCalls = 4   // calls in flight at once
	coldAfter       = 10  // lease times without a request after which a key is cold

	callTime = time.Second // deadline of a background call
)

// queue holds the keys that wait for a renewal.
type queue struct {
	sync.Mutex

	waiting, spare []queued
}

type queued struct {
	shard *shard
	entry *entry
}

func (q *queue) push(sh *shard, e *entry) {
	q.Lock()
	defer q.Unlock()
	q.waiting = append(q.waiting, queued{sh, e})
}

// take returns and removes all waiting keys. The slice is valid until the next call.
func (q *queue) take() []queued {
	q.Lock()
	defer q.Unlock()
	all := q.waiting
	q.waiting, q.spare = q.spare[:0], all
	return all
}

func (s *Store) run() {
	defer close(s.ended)
	ticker := time.NewTicker(time.Duration(s.tick) * time.Microsecond)
	defer ticker.Stop()
	for turn := 0; ; turn = (turn + 1) % sweepTicks {
		select {
		case <-s.closing:
			return
		case <-ticker.C:
			s.renewDue(turn)
		}
	}
}

// renewDue renews the queued keys, and sweeps some of the shards.
func (s *Store) renewDue(turn int) {
	var w work
	now := s.now()
	for _, q := range s.renewals.take() {
		q.shard.Lock()
		q.entry.queued = false
		w.renew(q.shard, q.entry, now)
		q.shard.Unlock()
	}
	for i := turn * shardCount / sweepTicks; i < (turn+1)*shardCount/sweepTicks; i++ {
		w.sweep(&s.shards[i], now)
	}
	s.sendJobs(&w)
}

// Close waits for the calls in flight, and refunds all tokens held. It does not close
// the store that it leases from. After Close every decision asks the store.
func (s *Store) Close() error {
	if !s.made() {
		return nil
	}
	s.close.Do(func() {
		close(s.closing)
		<-s.ended
		var inFlight []<-chan struct{}
		for i := range s.shards {
			inFlight = s.shards[i].stop(inFlight)
		}
		for _, answered := range inFlight {
			<-answered
		}
		var w work
		for i := range s.shards {
			w.refundAll(&s.shards[i])
		}
		s.sendJobs(&w)
	})
	return nil
}

// work collects the jobs of one tick.
type work struct {
	jobs []job
}

// job is a claim of one key: a renewal or a refund.
type job struct {
	shard *shard
	entry *entry
	claim stint.Claim
}

// renew adds a renewal of a key, whose shard is locked, and the refund of its grants
// that have ended.
func (w *work) renew(sh *shard, e *entry, now int64) {
	w.refundEnded(sh, e, now)
	c := e.claim
	if now >= e.cached.until && e.begin(&c, now, false) {
		w.jobs = append(w.jobs, job{sh, e, c})
	}
}

// sweep visits the keys of a shard. It refunds idle keys, renews keys that run low,
// and removes cold keys.
func (w *work) sweep(sh *shard, now int64) {
	sh.Lock()
	defer sh.Unlock()
	for _, e := range slices.Backward(sh.list) { // drop moves only entries that were swept
		idle := now - e.demand.since
		busy := e.inFlight != nil || e.queued
		switch {
		case idle > e.size.ahead:
			w.refundEnded(sh, e, math.MaxInt64)
		case !busy && e.isLow(now):
			w.renew(sh, e, now)
		}
		if idle > coldAfter*e.size.maxDenial && !busy && now >= e.cached.until && len(e.grants) == 0 {
			sh.drop(e)
		}
	}
}

// refundEnded refunds the grants that have ended at the given time.
func (w *work) refundEnded(sh *shard, e *entry, then int64) {
	kept := e.grants[:0]
	for _, g := range e.grants {
		switch {
		case then < g.until:
			kept = append(kept, g)
		case g.left > 0:
			c := e.claim
			c.Cost, c.At = -g.left, g.at
			w.jobs = append(w.jobs, job{sh, e, c})
		}
	}
	e.grants = kept
}

// stop stops all leasing in a shard, and appends its calls in flight.
func (sh *shard) stop(inFlight []<-chan struct{}) []<-chan struct{} {
	sh.Lock()
	defer sh.Unlock()
	sh.rules.most, sh.callers.most = 0, 0
	for _, e := range sh.list {
		if e.place = removed; e.inFlight != nil {
			inFlight = append(inFlight, e.inFlight)
		}
	}
	return inFlight
}

// refundAll refunds all tokens that a shard holds, and removes its entries.
func (w *work) refundAll(sh *shard) {
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.list {
		w.refundEnded(sh, e, math.MaxInt64)
	}
	clear(sh.entries)
	sh.list = nil
}

// sendJobs sends the jobs to the store in batches, with up to concurrentCalls calls at once.
func (s *Store) sendJobs(w *work) {
	if len(w.jobs) == 0 {
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, concurrentCalls)
	for jobs := w.jobs; len(jobs) > 0; {
		part := jobs[:min(jobsPerCall, len(jobs))]
		jobs = jobs[len(part):]
		slots <- struct{}{}
		all.Go(func() { s.sendBatch(part); <-slots })
	}
	all.Wait()
}

// sendBatch sends some jobs to the store, each as a group of its own.
func (s *Store) sendBatch(jobs []job) {
	groups, out := make([]stint.Group, len(jobs)), make([]stint.Decision, len(jobs))
	claims := make([]stint.Claim, len(jobs))
	for i := range jobs {
		claims[i] = jobs[i].claim
		groups[i].Claims = claims[i : i+1 : i+1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	sent := s.now()
	err := s.store.TakeGroups(ctx, groups, out)
	s.renewed.Add(1)
	received := s.now()
	for i := range jobs {
		jobs[i].done(&out[i], err == nil || out[i].Limit > 0, sent, received)
	}
}

// done handles the store's decision on a job.
func (j *job) done(d *stint.Decision, ok bool, sent, received int64) {
	j.shard.Lock()
	defer j.shard.Unlock()
	ok = ok && !d.Degraded
	switch {
	case j.claim.Cost < 0 && ok:
		j.shard.count.returned += uint64(-j.claim.Cost)
	case j.claim.Cost < 0:
		j.shard.count.stranded += uint64(-j.claim.Cost)
	default:
		j.entry.end()
		if ok {
			j.shard.learn(j.entry, *d, &j.claim, sent, received)
		}
	}
}
