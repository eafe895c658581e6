package quorumstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryServer is the acceptor in Go: the specification of the scripts. Its rules can be
// switched off, so that tests of the simulation can show that each is needed.
type memoryServer struct {
	label string
	clock func() int64
	rules *rules

	mu   sync.Mutex
	run  int    // number of the process
	id   string // of the process
	mark mark
	rows map[string]row
}

// rules are switched off by setting a field.
type rules struct {
	noFloor, noIncarnation, noAge, noRun, noFinish, noRepairCheck, noFoundingCheck bool
	noLast, noMarkLast, noRepairWait, noOutliving                                  bool

	keepsRows bool // no row expires before a group that is remembered at the same time
}

func newMemoryServer(label string, clock func() int64) *memoryServer {
	s := &memoryServer{label: label, clock: clock, rules: &rules{}, rows: map[string]row{}}
	s.startLocked()
	return s
}

func (s *memoryServer) name() string  { return s.label }
func (s *memoryServer) runID() string { return s.id }

// marked returns the mark.
func (s *memoryServer) marked() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark
}

// rowOf returns the row of a key.
func (s *memoryServer) rowOf(key string) row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[key]
}

// startLocked starts another process.
func (s *memoryServer) startLocked() {
	s.run++
	s.id = s.label + "/" + strconv.Itoa(s.run)
}

// call does the operations.
func (s *memoryServer) call(_ context.Context, r *request) (*reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callLocked(r), nil
}

func (s *memoryServer) callLocked(r *request) *reply {
	re := &reply{about: s.aboutLocked(&r.head)}
	if re.about.status != statusOK {
		return re
	}
	re.results = make([]result, 0, len(r.ops))
	for i := range r.ops {
		re.results = append(re.results, s.doLocked(&r.head, &r.ops[i], re.about.time))
	}
	return re
}

func (s *memoryServer) aboutLocked(h *head) about {
	a := about{time: s.clock()}
	if s.mark.incarnation == 0 || s.mark.run != s.runID() && !s.rules.noRun {
		a.status = statusUnborn
		return a
	}
	a.incarnation, a.birth, a.ever = s.mark.incarnation, s.mark.birth, s.mark.ever
	switch {
	case s.mark.members != h.members:
		a.status = statusOtherMembers
	case h.incarnation != 0 && h.incarnation != a.incarnation && !s.rules.noIncarnation:
		a.status = statusOtherIncarnation
	case h.last != 0 && a.time > h.last && !s.rules.noLast:
		a.status = statusLate
	}
	return a
}

func (s *memoryServer) doLocked(h *head, op *operation, now int64) (re result) {
	r, known := s.rows[op.key]
	if known && r.expired(now, h.slack) {
		delete(s.rows, op.key)
		r, known = row{}, false
	}
	if !known && !s.rules.noFloor {
		slack := h.slack.Microseconds()
		r.promise = ballot{max(s.mark.birth+slack, now-slack), maxID}
	}
	switch op.verb {
	case verbRead:
		re.row = r
	case verbPrepare, verbPrepareNew:
		re.row = r
		if op.verb == verbPrepareNew && len(r.parts) > 0 {
			return re
		}
		if re.refused = !r.promise.below(op.ballot); !re.refused {
			s.rows[op.key] = row{op.ballot, r.parts}
		}
	case verbAccept:
		if re.refused = op.ballot.below(r.promise); re.refused {
			re.row.promise = r.promise
			return re
		}
		parts := slices.Clone(op.parts)
		for i := range parts {
			parts[i].data = slices.Clone(parts[i].data)
		}
		for _, p := range r.parts {
			if p.class > op.upTo {
				parts = append(parts, p)
			}
		}
		s.rows[op.key] = row{maxBallot(op.ballot, op.next), parts}
	}
	return re
}

func (r *row) expired(now int64, slack time.Duration) bool {
	latest := r.promise.t
	for i := range r.parts {
		latest = max(latest, r.parts[i].expires)
	}
	return now >= latest+slack.Microseconds()
}

func (s *memoryServer) markLocked(r *markRequest) *markReply {
	re := &markReply{mark: s.mark, run: s.runID(), time: s.clock(), empty: len(s.rows) == 0}
	late := r.last != 0 && re.time > r.last && !s.rules.noMarkLast
	if r.new != (mark{}) && r.old == s.mark && (r.new.run == re.run || r.new.run == disownedRun(re.run)) && !late {
		s.mark = r.new
		re.set, re.mark = true, r.new
	}
	return re
}

func (s *memoryServer) scanLocked(r *scanRequest) *scanReply {
	re := &scanReply{about: s.aboutLocked(&r.head)}
	if re.about.status != statusOK {
		return re
	}
	var keys []string
	for k, row := range s.rows {
		if strings.Compare(k, r.cursor) > 0 && !row.expired(re.about.time, r.head.slack) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if len(keys) > r.count {
		keys = keys[:r.count]
		re.next = keys[len(keys)-1]
	}
	re.keys = keys
	return re
}

func (s *memoryServer) scan(_ context.Context, r *scanRequest) (*scanReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scanLocked(r), nil
}

// memberServer is a memoryServer as a [server]: its method mark hides the field.
type memberServer struct{ *memoryServer }

func (s memberServer) mark(_ context.Context, r *markRequest) (*markReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.markLocked(r), nil
}
