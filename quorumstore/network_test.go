package quorumstore

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/internal/cas"
)

// simServer is a memoryServer that can restart, freeze and have a wrong clock.
type simServer struct {
	*memoryServer

	sim     *simulation
	index   int
	offset  time.Duration // of its clock
	disk    map[string]row
	saved   mark
	thaw    chan struct{} // not nil: frozen until it is closed
	wrong   bool          // its clock is wrong for a time
	trapped func()        // guarded by mu: what happens after the next accept; nil: nothing
}

func (s *simServer) restart(fromDisk bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startLocked()
	s.rows, s.mark = map[string]row{}, mark{}
	if fromDisk {
		s.mark = s.saved
		maps.Copy(s.rows, s.disk)
		s.sim.trace.fault(s, "restarts from its disk")
		return
	}
	s.sim.trace.fault(s, "restarts empty")
}

// wipe deletes all keys, as FLUSHALL does. The process is the same.
func (s *simServer) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.mark = map[string]row{}, mark{}
	s.sim.trace.fault(s, "is emptied")
}

// whole reports whether the server is said to know all that was ever accepted, and can be used.
func (s *simServer) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark.ever && s.mark.run == s.runID() && !s.wrong
}

func (s *simServer) clockIsWrong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong
}

func (s *simServer) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved, s.disk = s.mark, maps.Clone(s.rows)
	s.sim.trace.fault(s, "writes its disk")
}

// trap restarts the server right after the next accept, empty or from a disk that lacks it.
func (s *simServer) trap(fromDisk bool) {
	if fromDisk {
		s.save()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trapped = func() { s.sim.restart(s, fromDisk) }
}

// disarm removes the trap.
func (s *simServer) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trapped = nil
}

// sprung ends the trap once the server has accepted something. Its lock is held.
func (s *simServer) sprung(r *request, re *reply) {
	if s.trapped == nil || re.about.status != statusOK || len(r.ops) == 0 || r.ops[0].verb != verbAccept || re.results[0].refused {
		return
	}
	go s.trapped()
	s.trapped = nil
}

// freeze stops the server for a time. What it gets meanwhile it executes then.
func (s *simServer) freeze(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.thaw != nil {
		return
	}
	thaw := make(chan struct{})
	s.thaw = thaw
	s.sim.trace.fault(s, "freezes")
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.thaw = nil
		s.sim.trace.fault(s, "thaws")
		close(thaw)
	})
}

// leap sets the clock forward, or back, for good.
func (s *simServer) leap(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
	s.sim.trace.fault(s, "has its clock set by "+d.String())
}

// setClock sets the clock forward, or back, for a time.
func (s *simServer) setClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong {
		return
	}
	s.wrong, s.offset = true, s.offset+d
	s.sim.trace.fault(s, "has its clock set by "+d.String())
	time.AfterFunc(s.sim.random.between(10*time.Millisecond, 8*time.Second), func() { s.setRight(d) })
}

// setRight undoes setClock. A clock that is ahead stays so until some process has seen it: the store
// does not promise more.
func (s *simServer) setRight(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d > 0 && s.mark.run == s.runID() {
		time.AfterFunc(100*time.Millisecond, func() { s.setRight(d) })
		return
	}
	s.wrong, s.offset = false, s.offset-d
	s.sim.trace.fault(s, "has its clock set right")
}

// link is the connection of one node to one server.
type link struct {
	*simServer

	node    int
	members int                              // of the list of the node
	cut     bool                             // guarded by mu of the server
	hold    func(*request) time.Duration     // guarded by mu: how long a request is under way, or another call (nil) waits to be sent
	fate    func(*request) (there, back leg) // guarded by mu: what else becomes of a request; nil: nothing
}

// holds sets how long requests to a server are under way.
func (n *simNode) holds(server int, f func(*request) time.Duration) {
	l := n.links[server]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = f
}

// pause has a node stop for a time before it reads or sets the next mark of each server.
func (n *simNode) pause(d time.Duration) {
	for i := range n.links {
		var paused atomic.Bool
		n.holds(i, func(r *request) time.Duration {
			if r != nil || !paused.CompareAndSwap(false, true) {
				return 0
			}
			return d
		})
	}
}

// setCut cuts the links of a node to some servers, and no others.
func (n *simNode) setCut(servers ...int) {
	for i, l := range n.links {
		l.setCut(slices.Contains(servers, i))
	}
}

func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		l.sim.trace.fault(l.simServer, "is cut off from a node")
	}
}

var errLost = cas.NoAnswer(context.Background(), "the simulation", nil)

// lost is the end of a call that has no answer.
func lost(ctx context.Context) error {
	<-ctx.Done()
	return errLost
}

// send takes a message to the server, has it work, and takes the answer back. A run has many
// thousands of messages, so one that meets no fault needs no goroutine of its own.
func send[T any](ctx context.Context, l *link, r *request, work func() *T) (*T, error) {
	sim := l.sim
	l.mu.Lock()
	hold, fate := l.hold, l.fate
	l.mu.Unlock()
	held := time.Duration(0)
	if hold != nil {
		held = hold(r)
	}
	if r == nil && held > 0 { // the node is slow
		elapse(held)
		held = 0
	}
	l.mu.Lock()
	run := l.run
	l.mu.Unlock()
	there, back := sim.journey(l.index)
	if fate != nil {
		planned, answer := fate(r)
		there.lost, back.lost = there.lost || planned.lost, back.lost || answer.lost
		there.takes, there.held, back.held = there.takes+planned.takes, planned.held, answer.held
	}
	if there.lost {
		return nil, lost(ctx)
	}
	there.takes += held
	if there.again > 0 {
		go func() {
			elapse(there.takes + there.again)
			deliver(l, run, work)
		}()
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= there.takes {
		go func() {
			elapse(there.takes)
			deliver(l, run, work)
		}()
		return nil, lost(ctx)
	}
	if there.held != nil {
		go func() {
			there.wait()
			deliver(l, run, work)
		}()
		return nil, lost(ctx)
	}
	if there.takes > 0 {
		elapse(there.takes)
	}
	answer := arrive(ctx, l, run, work)
	if answer == nil || back.lost {
		return nil, lost(ctx)
	}
	if back.takes > 0 {
		elapse(back.takes)
	}
	if back.held != nil { // the node stands still
		back.wait()
	}
	return answer, nil
}

// arrive has the server do the work. If it is frozen, its kernel keeps the message beyond the end
// of the call.
func arrive[T any](ctx context.Context, l *link, run int, work func() *T) *T {
	l.mu.Lock()
	frozen := l.thaw != nil
	l.mu.Unlock()
	if !frozen {
		return deliver(l, run, work)
	}
	answered := make(chan *T, 1)
	go func() { answered <- deliver(l, run, work) }()
	select {
	case answer := <-answered:
		return answer
	case <-ctx.Done():
		return nil
	}
}

// deliver has the process of a run do the work once it is not frozen. It returns nil if that
// process has ended, or the link is cut.
func deliver[T any](l *link, run int, work func() *T) *T {
	for {
		l.mu.Lock()
		thaw := l.thaw
		if thaw == nil {
			defer l.mu.Unlock()
			if l.run != run && !l.rules.noIncarnation || l.cut {
				return nil
			}
			return work()
		}
		l.mu.Unlock()
		<-thaw
	}
}

// leg is what becomes of a message on its way.
type leg struct {
	lost  bool
	takes time.Duration
	again time.Duration // not 0: it arrives once more, so much later
	held  chan struct{} // not nil: it arrives once this is closed, or after some time
}

// wait waits until a message is not held any more, or for some time.
func (l *leg) wait() {
	select {
	case <-l.held:
	case <-time.After(30 * time.Second):
	}
}

// journey draws what becomes of a request to a server, and of its answer.
func (s *simulation) journey(server int) (there, back leg) {
	if s.steady {
		there.takes = 100*time.Microsecond + time.Duration(server)*10*time.Microsecond // the order is always the same
		return there, back
	}
	// The request or the answer takes time, and not both: each sleep of a run costs.
	const least, most = 20 * time.Microsecond, time.Millisecond
	if takes := s.random.between(least, 2*most); takes < most {
		there.takes = takes
	} else {
		back.takes = takes - most
	}
	if s.calm.Load() {
		return there, back
	}
	there.lost, back.lost = s.random.chance(0.02), s.random.chance(0.02)
	if s.random.chance(0.05) {
		there.takes = s.random.between(most, 4*time.Second)
	}
	if s.random.chance(0.02) {
		there.again = s.random.between(1, 2*time.Second)
	}
	return there, back
}

func (l *link) call(ctx context.Context, r *request) (*reply, error) {
	return send(ctx, l, r, func() *reply {
		re := l.callLocked(r)
		l.sim.trace.call(l, r, re)
		l.sprung(r, re)
		return re
	})
}

// markedLink is a link as a [server]: its method mark hides the field.
type markedLink struct{ *link }

func (l markedLink) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	return send(ctx, l.link, nil, func() *markReply {
		re := l.markLocked(r)
		if re.set {
			l.sim.trace.marked(l.link, r)
		}
		return re
	})
}

func (l *link) scan(ctx context.Context, r *scanRequest) (*scanReply, error) {
	return send(ctx, l, nil, func() *scanReply { return l.scanLocked(r) })
}
