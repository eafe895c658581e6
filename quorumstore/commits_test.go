package quorumstore

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// lineage is a proposal as the servers and its node told it to the trace.
type lineage struct {
	ballot   ballot
	members  uint64
	majority int
	upTo     uint8
	first    time.Duration // when a server first accepted it
	expires  int64         // of its parts, the latest
	accepted map[int8]bool // the servers that ever accepted it
	parents  []part        // what it was made from; the ballots count
	kept     ballot        // if it has no parents: the proposal that it follows by a kept promise
	fresh    uint8         // a bit for each server that promised it and had nothing of the key
}

// parent returns the ballot of the proposal that wrote what this one replaces in a class.
func (l *lineage) parent(class uint8) (b ballot, known bool) {
	switch {
	case l.kept != ballot{}:
		return l.kept, true
	case l.parents == nil && bits.OnesCount8(l.fresh) >= l.majority:
		return ballot{}, true
	}
	for i := range l.parents {
		if l.parents[i].class >= class {
			return l.parents[i].ballot, true
		}
	}
	return ballot{}, false
}

// checkCommits returns an error if a commit does not extend the one before it. A commit is a
// proposal that a majority has ever accepted, in whatever time. For each class, a commit has to be
// made from the commit with the next lower ballot, or from a proposal that was made from that one,
// unless all that the lower one wrote in the class has expired.
func (s *simulation) checkCommits() error {
	s.trace.mu.Lock()
	defer s.trace.mu.Unlock()
	keys := map[string]map[ballot]*lineage{}
	for i := range s.trace.events {
		if e := &s.trace.events[i]; e.kind == traceOperation && e.op.verb != verbRead || e.kind == traceProposal {
			if keys[e.op.key] == nil {
				keys[e.op.key] = map[ballot]*lineage{}
			}
			note(keys[e.op.key], e)
		}
	}
	for _, all := range keys {
		var commits []*lineage
		for _, l := range all {
			if len(l.accepted) > 0 && len(l.accepted) >= l.majority {
				commits = append(commits, l)
			}
		}
		slices.SortFunc(commits, func(a, b *lineage) int { return a.ballot.compare(b.ballot) })
		for class := range uint8(maxClass + 1) {
			if err := s.checkClass(all, commits, class); err != nil {
				return err
			}
		}
	}
	return nil
}

// note adds an event to the lineages of a key.
func note(all map[ballot]*lineage, e *traceEvent) {
	of := func(b ballot) *lineage {
		if all[b] == nil {
			all[b] = &lineage{ballot: b, accepted: map[int8]bool{}}
		}
		return all[b]
	}
	l := of(e.op.ballot)
	if e.kind == traceProposal {
		l.parents = e.row.parts
		return
	}
	if e.status != statusOK || e.refused {
		return
	}
	if e.op.verb != verbAccept {
		if len(e.row.parts) == 0 {
			l.fresh |= 1 << e.server
		}
		return
	}
	if len(l.accepted) == 0 {
		l.first = e.at
	}
	l.members, l.majority, l.upTo, l.accepted[e.server] = e.members, int(e.size)/2+1, e.op.upTo, true
	for i := range e.op.parts {
		l.expires = max(l.expires, e.op.parts[i].expires)
	}
	if e.op.next != (ballot{}) {
		of(e.op.next).kept = l.ballot
	}
}

// checkClass checks the commits of a key, by ascending ballot, for one class.
func (s *simulation) checkClass(all map[ballot]*lineage, commits []*lineage, class uint8) error {
	var before *lineage
	for _, l := range commits {
		if l.upTo < class {
			continue
		}
		if before != nil && !s.mayForget(before, l, class) {
			from := l
			for before.ballot.below(from.ballot) {
				b, known := from.parent(class)
				if !known {
					return fmt.Errorf("nothing says from what the proposal %s was made", s.trace.ballot(from.ballot))
				}
				if from = all[b]; from == nil {
					from = &lineage{ballot: b}
				}
			}
			if from.ballot != before.ballot {
				return fmt.Errorf("the commit %s does not extend %s in class %d, but %s", s.trace.ballot(l.ballot), s.trace.ballot(before.ballot), class, s.trace.ballot(from.ballot))
			}
		}
		before = l
	}
	return nil
}

// mayForget reports whether all that a commit wrote in a class had expired when another one was
// made: the states of class c live for 2^c seconds. A second is for clocks.
func (s *simulation) mayForget(commit, next *lineage, class uint8) bool {
	if class < 33 && next.first > commit.first+time.Second<<class+time.Second {
		return true
	}
	return next.first > time.UnixMicro(commit.expires).Sub(s.begun)
}
