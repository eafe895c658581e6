package quorumstore

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// trace is what happened in a run, in the order of virtual time: each operation that a server
// executed, what each proposal was made from, each call with its outcome, and each fault. A
// failed run prints it, because another run of the same seed differs: the ids of ballots and the
// waits of nodes are random.
type trace struct {
	begun time.Time

	mu      sync.Mutex
	events  []traceEvent // guarded by mu
	dropped int          // guarded by mu: the number of events before these
}

// maxTrace is the number of events that a trace keeps, the last ones. A run of a minute has about
// ten thousand.
const maxTrace = 1 << 16

// traceEvent is an event of one of the kinds.
type traceEvent struct {
	kind         traceKind
	node, server int8 // -1: of none
	run          int32
	at           time.Duration // since the run began

	// Of an operation, and of a proposal. The parts of an operation that returns a row are in row.
	op      operation
	members uint64
	size    int8 // of the list of members
	status  status
	refused bool
	row     row

	take *simTake
	text string
}

type traceKind uint8

const (
	traceOperation traceKind = iota // a server executed it
	traceProposal                   // a node chose the parts of row to make a proposal from
	traceTake                       // a call ended
	traceText                       // a fault, or a mark
)

func (t *trace) add(e *traceEvent) {
	e.at = time.Since(t.begun)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) >= maxTrace {
		n := copy(t.events, t.events[maxTrace/2:])
		t.dropped += len(t.events) - n
		t.events = t.events[:n]
	}
	t.events = append(t.events, *e)
}

// call notes the operations of a request that reached a server, whose lock is held.
func (t *trace) call(l *link, r *request, re *reply) {
	for i := range r.ops {
		e := &traceEvent{
			kind: traceOperation, node: int8(l.node), server: int8(l.index), run: int32(l.run),
			op: r.ops[i], members: r.head.members, size: int8(l.members), status: re.about.status,
		}
		if e.status == statusOK {
			e.refused, e.row = re.results[i].refused, re.results[i].row
		}
		t.add(e)
	}
}

// proposal notes what a node makes a proposal from.
func (t *trace) proposal(node int, p *proposal, chosen []part) {
	t.add(&traceEvent{
		kind: traceProposal, node: int8(node), server: -1,
		op: operation{key: p.key, ballot: p.ballot, upTo: p.upTo}, row: row{parts: chosen},
	})
}

func (t *trace) took(h *simTake) {
	t.add(&traceEvent{kind: traceTake, node: int8(h.node), server: -1, take: h})
}

// fault notes what happens to a server, whose lock is held.
func (t *trace) fault(s *simServer, what string) {
	t.add(&traceEvent{kind: traceText, node: -1, server: int8(s.index), run: int32(s.run), text: what})
}

// marked notes a mark that a node has set.
func (t *trace) marked(l *link, r *markRequest) {
	text := fmt.Sprintf("gets the mark %s of the list %x, ever %v", shortID(r.new.incarnation), r.new.members, r.new.ever)
	t.add(&traceEvent{kind: traceText, node: int8(l.node), server: int8(l.index), run: int32(l.run), text: text})
}

// String returns one line for each event.
func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	if t.dropped > 0 {
		fmt.Fprintf(&text, "%d events before these are not kept\n", t.dropped)
	}
	for i := range t.events {
		e := &t.events[i]
		fmt.Fprintf(&text, "%12v ", e.at)
		if e.node >= 0 {
			fmt.Fprintf(&text, "node %d ", e.node)
		}
		if e.server >= 0 {
			fmt.Fprintf(&text, "server %d run %d ", e.server, e.run)
		}
		text.WriteString(t.describe(e) + "\n")
	}
	return text.String()
}

func (t *trace) describe(e *traceEvent) string {
	switch e.kind {
	case traceProposal:
		return fmt.Sprintf("%q proposes %s up to class %d from%s", e.op.key, t.ballot(e.op.ballot), e.op.upTo, t.parts(e.row.parts))
	case traceTake:
		return t.take(e.take)
	case traceText:
		return e.text
	case traceOperation:
	}
	verb := map[verb]string{verbRead: "read", verbPrepare: "prepare", verbAccept: "accept"}[e.op.verb]
	text := fmt.Sprintf("%q %s %s", e.op.key, cmp.Or(verb, "another prepare"), t.ballot(e.op.ballot))
	if e.op.verb == verbAccept {
		text += fmt.Sprintf(" then %s up to class %d%s", t.ballot(e.op.next), e.op.upTo, t.parts(e.op.parts))
	}
	switch {
	case e.status != statusOK:
		return text + ": " + e.status.String()
	case e.refused:
		return text + ": refused, promised " + t.ballot(e.row.promise)
	case e.op.verb == verbAccept:
		return text + ": done"
	}
	return text + ": promised " + t.ballot(e.row.promise) + t.parts(e.row.parts)
}

func (t *trace) take(h *simTake) string {
	text := fmt.Sprintf("take %q short %v mid %v long %v, begun at %v: ", h.key, h.short, h.mid, h.long, h.from.Sub(t.begun))
	if h.err != nil {
		return text + h.err.Error()
	}
	return text + fmt.Sprintf("allowed %v, decided at %v, %d of the long limit are used", h.allowed, time.UnixMicro(h.at).Sub(t.begun), h.used)
}

// ballot returns the time of a ballot since the begin of the run, and the end of its id.
func (t *trace) ballot(b ballot) string {
	if b == (ballot{}) {
		return "none"
	}
	return fmt.Sprintf("%.6f/%s", time.UnixMicro(b.t).Sub(t.begun).Seconds(), shortID(b.id))
}

func shortID(id int64) string { return fmt.Sprintf("%03x", id&0xfff) }

// parts returns for each part its class, its ballot and what is used of the limits in it.
func (t *trace) parts(parts []part) string {
	var text strings.Builder
	for i := range parts {
		p := &parts[i]
		fmt.Fprintf(&text, " [%d by %s%s]", p.class, t.ballot(p.ballot), t.usedIn(p))
	}
	return text.String()
}

// usedIn returns for each limit of the simulation with a state in a part how many units the state
// leaves at the time of the ballot, and when the state ends, and how many groups the part remembers.
func (t *trace) usedIn(p *part) (text string) {
	if len(p.data) == 0 {
		return ""
	}
	c, ok := contentsOf([]part{*p}, time.UnixMicro(p.ballot.t))
	if !ok || len(c.parts) != 1 {
		return " unreadable"
	}
	if n := len(c.parts[0].records); n > 0 {
		text = fmt.Sprintf(" %d remembered", n)
	}
	for _, s := range c.parts[0].states {
		for _, l := range []stint.Limit{simShort, simMids[5*time.Second], simMids[20*time.Second], simLong} {
			if storekit.ScopeOf(l).String() != s.Scope {
				continue
			}
			out := make([]stint.Decision, 1)
			claim := stint.Claim{Key: "k", Limit: l}
			value := map[string][]byte{"k": storekit.JoinValue([]storekit.StoredState{s})}
			_, err := storekit.Decide([]stint.Group{{Claims: []stint.Claim{claim}, Dry: true}}, value, time.UnixMicro(p.ballot.t), out)
			if err != nil {
				return " " + err.Error()
			}
			text += fmt.Sprintf(" %s: %d left, until %v", l.Rule(), out[0].Remaining, s.Expires.Sub(t.begun))
		}
	}
	return text
}
