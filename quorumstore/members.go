package quorumstore

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

const (
	// maxSkew is how far the clocks of servers may be apart, and how far that of one may run
	// back.
	maxSkew = time.Second
	// maxDrift is the part by which the clock of this process may run faster than that of a server: a
	// thousandth. Clocks that a time service adjusts stay below half of it.
	maxDrift = 1000
	// skewSlack is the part of the slack for clocks.
	skewSlack = 2 * maxSkew
	// maxOutstanding bounds the calls to a server that have no answer yet.
	maxOutstanding = 64
)

// member is a server as this process knows it.
type member struct {
	server

	index       int
	outstanding atomic.Int32
	silent      atomic.Bool // the last call had no answer

	mu struct {
		sync.Mutex

		heard    bool
		about    about     // of the last reply
		received time.Time // when it came
		ranBack  int64     // the incarnation whose clock ran back; it is not used, and soon disowned
		wrong    error     // why its mark was not read at last, or it refuses all calls; nil: it does not
	}
}

// membersHash identifies a list of members, whatever its order.
func membersHash(names []string) uint64 {
	names = slices.Sorted(slices.Values(names))
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(names, ",")))
	return h.Sum64() >> 11
}

// byName returns the members in the order of their names: processes may list them in different orders.
func (b *backend) byName() []*member {
	return slices.SortedFunc(slices.Values(b.members), func(x, y *member) int { return strings.Compare(x.name(), y.name()) })
}

// learn notes a reply to a call that was sent at a time.
func (m *member) learn(a about, sent time.Time) {
	received := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.heard && m.mu.about.incarnation == a.incarnation {
		passed := sent.Sub(m.mu.received)
		least := m.mu.about.time + (passed - passed/maxDrift).Microseconds()
		if a.time < least-maxSkew.Microseconds() && a.incarnation != 0 {
			m.mu.ranBack = a.incarnation
		}
	}
	if m.mu.heard && m.mu.about.time > a.time && m.mu.about.incarnation == a.incarnation && m.mu.ranBack != a.incarnation && sent.Before(m.mu.received) {
		return // an older reply that came later
	}
	m.mu.heard, m.mu.about, m.mu.received = true, a, received
}

// timeAt estimates the time of the server. It is not ahead of it unless its clock ran back.
func (m *member) timeAt(now time.Time) (micros int64, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.timeAtLocked(now)
}

func (m *member) timeAtLocked(now time.Time) (micros int64, known bool) {
	return m.mu.about.time + now.Sub(m.mu.received).Microseconds(), m.mu.heard
}

// incarnation returns that of the last reply, or 0 if the server must not be used.
func (m *member) incarnation() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.about.incarnation == m.mu.ranBack {
		return 0
	}
	return m.mu.about.incarnation
}

// agreeing returns for each member whether its clock agrees with those of a majority.
func (b *backend) agreeing() (agree [maxMembers]bool) {
	now := time.Now()
	var times [maxMembers]int64
	var known [maxMembers]bool
	for i, m := range b.members {
		times[i], known[i] = m.timeAt(now)
	}
	for i := range b.members {
		same := 0
		for j := range b.members {
			if d := times[i] - times[j]; known[i] && known[j] && max(d, -d) <= maxSkew.Microseconds() {
				same++
			}
		}
		agree[i] = same >= b.majority
	}
	return agree
}

// quorumTime estimates the time of the quorum: the lower median of the members that agree,
// whether they have just answered or not. So it does not depend on who answers first.
func (b *backend) quorumTime() int64 {
	now, agree := time.Now(), b.agreeing()
	var times []int64
	for i, m := range b.members {
		if t, known := m.timeAt(now); known && agree[i] {
			times = append(times, t)
		}
	}
	return lowerMedian(times)
}

// now returns the time that decisions are made at.
func (b *backend) now() time.Time {
	if b.options.Clock != nil {
		return b.options.Clock()
	}
	return time.UnixMicro(b.quorumTime())
}

// lowerMedian returns the middle of the times, the lower one of two, or 0 of none.
func lowerMedian(times []int64) int64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[(len(times)-1)/2]
}

// answer is what a member answered.
type answer struct {
	member *member
	reply  *reply
	err    error
}

// exchange is one request to each of several members. The answers that nobody waits for any
// more end with the life of a call.
type exchange struct {
	backend *backend
	sent    time.Time
	asked   int
	answers []*answer
	arrive  chan *answer
}

func (b *backend) newExchange() *exchange {
	return &exchange{backend: b, sent: time.Now(), arrive: make(chan *answer, len(b.members))}
}

// ask sends a request to one member.
func (e *exchange) ask(ctx context.Context, m *member, r *request) {
	e.asked++
	if m.outstanding.Add(1) > maxOutstanding {
		m.outstanding.Add(-1)
		e.arrive <- &answer{member: m, err: &stint.Error{Code: stint.CodeUnavailable, Kind: "connection", Problem: "the server " + m.name() + " does not answer: too many calls wait for it"}}
		return
	}
	sent := time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.backend.options.Timeout)
		defer cancel()
		a := &answer{member: m}
		a.reply, a.err = m.call(ctx, r)
		m.outstanding.Add(-1)
		m.silent.Store(a.err != nil)
		if a.err == nil {
			m.learn(a.reply.about, sent)
			e.backend.look(m, a.reply.about)
		}
		e.arrive <- a
	}()
}

// wait waits for the next answer. It returns nil if there is none before the context ends or
// the timer fires.
func (e *exchange) wait(ctx context.Context, timer <-chan time.Time) *answer {
	if len(e.answers) == e.asked {
		return nil
	}
	select {
	case a := <-e.arrive:
		e.answers = append(e.answers, a)
		return a
	default:
	}
	select {
	case a := <-e.arrive:
		e.answers = append(e.answers, a)
		return a
	case <-timer:
	case <-ctx.Done():
	}
	return nil
}

// grace is how long to wait for the answers beyond a majority: as long as the majority took.
func (e *exchange) grace() time.Duration {
	if !e.expectsMore() {
		return 0
	}
	return min(time.Since(e.sent)+100*time.Microsecond, maxGrace)
}

// expectsMore reports whether a member has not answered yet that most likely will. One that did not
// answer the last call is not waited for.
func (e *exchange) expectsMore() bool {
	for _, m := range e.backend.members {
		answered := false
		for _, a := range e.answers {
			answered = answered || a.member == m
		}
		if !answered && !m.silent.Load() && m.outstanding.Load() < maxOutstanding/4 {
			return true
		}
	}
	return false
}

// linger waits for the answers beyond a majority for the time of grace.
func (e *exchange) linger(ctx context.Context) {
	grace := e.grace()
	if grace == 0 {
		return
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	for a := e.wait(ctx, t.C); a != nil; a = e.wait(ctx, t.C) {
		continue
	}
}

const maxGrace = 10 * time.Millisecond

// usable returns the answers that count: the server did what it was asked, and its clock
// agrees with those of a majority.
func (e *exchange) usable() (some []*answer) {
	agree := e.backend.agreeing()
	for _, a := range e.answers {
		if a.err == nil && a.reply.about.status == statusOK && agree[a.member.index] && a.member.trusts(a.reply.about.incarnation) {
			some = append(some, a)
		}
	}
	return some
}

// trusts reports whether the clock of an incarnation has not run back.
func (m *member) trusts(incarnation int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.ranBack != incarnation
}
