package lease

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stintdev/stint"
)

// In the background leases are renewed before they are used up, and what is
// left of them goes back.

const (
	ticks  = 16 // of L: how often keys that run low are renewed
	rounds = 8  // ticks in which every key is looked at once
	batch  = 128
	lanes  = 4  // calls at once
	idleIn = 10 // lease times after which a key that nobody asks for is cold

	callTime = time.Second // for which the background waits for an answer
)

// queue is keys to be renewed.
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

// take returns all that wait. What it returned before is used again.
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
	for turn := 0; ; turn = (turn + 1) % rounds {
		select {
		case <-s.closing:
			return
		case <-ticker.C:
			s.look(turn)
		}
	}
}

// look renews what runs low, and looks through a part of all keys.
func (s *Store) look(turn int) {
	var w work
	now := s.now()
	for _, q := range s.low.take() {
		q.shard.Lock()
		q.entry.queued = false
		w.renew(q.shard, q.entry, now)
		q.shard.Unlock()
	}
	for i := turn * shards / rounds; i < (turn+1)*shards/rounds; i++ {
		w.patrol(&s.shards[i], now)
	}
	s.carry(&w)
}

// Close gives back what is held, and what the calls in flight bring, which it
// waits for. It does not close the store that it leases from. Decisions after
// it ask the store.
func (s *Store) Close() error {
	if !s.made() {
		return nil
	}
	s.close.Do(func() {
		close(s.closing)
		<-s.ended
		var asking []<-chan struct{}
		for i := range s.shards {
			asking = s.shards[i].leave(asking)
		}
		for _, answered := range asking {
			<-answered
		}
		var w work
		for i := range s.shards {
			w.empty(&s.shards[i])
		}
		s.carry(&w)
	})
	return nil
}

// work is what one look asks the store for.
type work struct {
	jobs []job
}

// job is a claim of one key: a renewal, or what goes back.
type job struct {
	shard *shard
	entry *entry
	claim stint.Claim
}

// renew asks for more of a key, whose shard is locked, and gives back in the
// same call what has ended of it.
func (w *work) renew(sh *shard, e *entry, now int64) {
	w.settle(sh, e, now)
	c := e.claim
	if now >= e.deniedUntil.until && e.begin(&c, now, false) {
		w.jobs = append(w.jobs, job{sh, e, c})
	}
}

// patrol gives back what is idle or was not renewed, renews what is used, and
// forgets the keys that have become cold.
func (w *work) patrol(sh *shard, now int64) {
	sh.Lock()
	defer sh.Unlock()
	for _, e := range slices.Backward(sh.list) { // drop moves only what was looked at
		idle := now - e.demand.since
		busy := e.asking != nil || e.queued
		switch {
		case idle > e.size.ahead:
			w.settle(sh, e, math.MaxInt64)
		case !busy && e.isLow(now):
			w.renew(sh, e, now)
		}
		if idle > idleIn*e.size.recall && !busy && now >= e.deniedUntil.until && len(e.grants) == 0 {
			sh.drop(e)
		}
	}
}

// settle gives back the grants that ended by then.
func (w *work) settle(sh *shard, e *entry, then int64) {
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

// leave has a shard ask for nothing more, and adds the calls in flight.
func (sh *shard) leave(asking []<-chan struct{}) []<-chan struct{} {
	sh.Lock()
	defer sh.Unlock()
	sh.rules.most, sh.callers.most = 0, 0
	for _, e := range sh.list {
		if e.place = gone; e.asking != nil {
			asking = append(asking, e.asking)
		}
	}
	return asking
}

// empty gives back all that a shard holds, and forgets it.
func (w *work) empty(sh *shard) {
	sh.Lock()
	defer sh.Unlock()
	for _, e := range sh.list {
		w.settle(sh, e, math.MaxInt64)
	}
	clear(sh.entries)
	sh.list = nil
}

// carry takes the work to the store, some calls at once.
func (s *Store) carry(w *work) {
	if len(w.jobs) == 0 {
		return
	}
	var all sync.WaitGroup
	lane := make(chan struct{}, lanes)
	for jobs := w.jobs; len(jobs) > 0; {
		part := jobs[:min(batch, len(jobs))]
		jobs = jobs[len(part):]
		lane <- struct{}{}
		all.Go(func() { s.call(part); <-lane })
	}
	all.Wait()
}

// call takes some jobs to the store, each as a group of its own.
func (s *Store) call(jobs []job) {
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

// done keeps what the store said to a job.
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
