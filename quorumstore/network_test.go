package quorumstore

import (
	"context"
	"maps"
	"slices"
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
	behind  bool          // its clock was set back
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

// whole reports whether the server is said to know all that was ever accepted.
func (s *simServer) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark.ever && s.mark.run == s.runID()
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

// runBack sets the clock back for a time.
func (s *simServer) runBack(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind {
		return
	}
	s.behind, s.offset = true, s.offset-d
	s.sim.trace.fault(s, "has its clock set back by "+d.String())
	time.AfterFunc(s.sim.random.between(10*time.Millisecond, 8*time.Second), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.behind, s.offset = false, s.offset+d
		s.sim.trace.fault(s, "has its clock set right")
	})
}

// link is the connection of one node to one server.
type link struct {
	*simServer

	node int
	cut  bool                         // guarded by mu of the server
	hold func(*request) time.Duration // guarded by mu: how long a request is under way, or another call (nil) waits to be sent
}

// holds sets how long requests to a server are under way.
func (n *simNode) holds(server int, f func(*request) time.Duration) {
	l := n.links[server]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = f
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
	hold := l.hold
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
