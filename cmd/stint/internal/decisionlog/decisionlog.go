// Package decisionlog writes a log of decisions: all that is denied or degraded, and a
// sample of what is allowed. stint replay reads it.
//
// Use it to see who was denied and why, and to try rules on yesterday's traffic. The log is
// never on the path of a check: a decision that is logged is written to a buffer of bounded
// size, which one goroutine empties. Whatever does not fit is dropped and counted, by rule
// and reason, so that written and dropped decisions together are those that were to be
// logged.
//
// A line has no identity whole. An identity appears as a hash of 64 bits under a key of the
// operator, and shortened.
package decisionlog

import (
	"bytes"
	"cmp"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/rule"
)

// Options configures a [Log].
type Options struct {
	Sink   Sink   // where lines go; required
	Sample Sample // of the allowed decisions
	// Rate bounds the lines of denied and degraded decisions a second. Half of it is divided
	// equally among the rules, so that denials of one rule never hide those of another; the
	// other half is for any rule. 0 or less: [DefaultRate].
	Rate   int
	Key    Key              // of the hashes of identities
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger
}

// DefaultRate is the default of [Options].Rate.
const DefaultRate = 1000

// Sink stores lines.
type Sink interface {
	// WriteLines stores complete lines, each of which ends with a line feed. It returns how
	// many it stored, from the first on. Close is not called meanwhile.
	WriteLines(lines []byte) (stored int, err error)
	// Close ends the sink.
	Close() error
}

// The reasons for which decisions are dropped.
const (
	ByRate  = "rate"  // more denials than Rate
	ByQueue = "queue" // the sink is slower than the decisions
	ByWrite = "write" // the sink failed
)

var reasons = [...]string{ByRate, ByQueue, ByWrite}

// Drop is a number of dropped decisions.
type Drop struct {
	Rule   string // "" for decisions of no rule, such as those of a deny list
	Reason string
	Count  uint64
}

// maxBuffer bounds the bytes that wait for the sink; another buffer is being written.
const maxBuffer = 4 << 20

// flushEvery is the longest time that a line waits for the sink.
const flushEvery = 200 * time.Millisecond

// Log collects lines and writes them. Its methods are safe for concurrent use.
type Log struct {
	options Options
	written atomic.Uint64
	wake    chan struct{} // holds a value when half of the buffer is used
	common  window        // lines of all rules beyond their own shares
	missed  atomic.Uint64 // decisions dropped since the last line

	mu struct {
		sync.Mutex

		lines  []byte
		of     []source // of each line
		shares map[string]*share
	}
}

// source says what a line stands for.
type source struct {
	share  *share
	missed uint64 // what the line says was dropped before it
}

// share is what one rule may write, and what was dropped of it.
type share struct {
	rule    string
	window  window
	dropped [len(reasons)]atomic.Uint64
}

// New returns a log. Its caller runs [Log.Run].
func New(o Options) *Log {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rate <= 0 {
		o.Rate = DefaultRate
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{options: o, wake: make(chan struct{}, 1)}
	l.mu.shares = map[string]*share{}
	return l
}

// Rules returns the recorder of a rule set. Counts of rules that the set does not have are
// forgotten.
func (l *Log) Rules(set *rule.Set) *Recorder {
	r := &Recorder{log: l, patterns: set.KeyPatterns(), shares: map[*rule.Rule]*share{}, names: hashedNames(set), own: int64(max(1, l.options.Rate/2/(len(set.Rules())+1)))}
	known := map[string]*share{}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := func(id string) *share {
		s := l.mu.shares[id]
		if s == nil {
			s = &share{rule: id}
		}
		known[id] = s
		return s
	}
	r.none = of("")
	for _, one := range set.Rules() {
		r.shares[one] = of(one.ID)
	}
	l.mu.shares = known
	return r
}

// Written returns the number of lines that the sink has stored.
func (l *Log) Written() uint64 { return l.written.Load() }

// Dropped returns what was dropped of the rules in force, sorted by rule and reason. Counts
// of 0 are included, so that their first rise is seen.
func (l *Log) Dropped() []Drop {
	l.mu.Lock()
	list := make([]Drop, 0, len(l.mu.shares)*len(reasons))
	for id, s := range l.mu.shares {
		for i, reason := range reasons {
			list = append(list, Drop{id, reason, s.dropped[i].Load()})
		}
	}
	l.mu.Unlock()
	slices.SortFunc(list, func(a, b Drop) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// Sample says which allowed decisions are logged.
type Sample struct {
	Share float64 // 0 to 1
	// ByCaller keeps all decisions of a share of the callers, instead of a share of the
	// decisions.
	ByCaller bool
}

// below reports whether a random number of 64 bits is within the share.
func (s Sample) below(n uint64) bool {
	return s.Share >= 1 || float64(n>>11)/(1<<53) < s.Share
}

// window counts lines within a second. The upper half of the number is the second.
type window struct{ packed atomic.Uint64 }

// take counts a line if there are fewer than most in this second.
func (w *window) take(second uint32, most int64) bool {
	for {
		old := w.packed.Load()
		n := int64(old & math.MaxUint32)
		if uint32(old>>32) != second {
			n = 0
		}
		if n >= most {
			return false
		}
		if w.packed.CompareAndSwap(old, uint64(second)<<32|uint64(n+1)) {
			return true
		}
	}
}

// admits reports whether a denied or degraded decision of a rule may be logged now.
func (r *Recorder) admits(s *share, now time.Time) bool {
	second, l := uint32(now.Unix()), r.log
	return s.window.take(second, r.own) || l.common.take(second, int64(l.options.Rate)-int64(l.options.Rate)/2)
}

// drop counts a decision that is not in the log.
func (l *Log) drop(s *share, reason string) {
	s.dropped[slices.Index(reasons[:], reason)].Add(1)
	l.missed.Add(1)
}

// append adds a line to the buffer, or drops it. line has no end yet.
func (l *Log) append(s *share, line []byte) {
	l.mu.Lock()
	if len(l.mu.lines)+len(line) > maxBuffer {
		l.mu.Unlock()
		l.drop(s, ByQueue)
		return
	}
	l.mu.lines = append(l.mu.lines, line...)
	from := source{share: s}
	if l.missed.Load() > 0 {
		from.missed = l.missed.Swap(0)
		l.mu.lines = appendInt(append(l.mu.lines, `,"dropped_before":`...), int64(from.missed))
	}
	l.mu.lines = append(l.mu.lines, "}\n"...)
	l.mu.of = append(l.mu.of, from)
	half := len(l.mu.lines) > maxBuffer/2
	l.mu.Unlock()
	if half {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Run writes lines until done is closed, then writes the remaining ones and closes the sink.
func (l *Log) Run(done <-chan struct{}) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	w := writer{log: l}
	for {
		select {
		case <-ticker.C:
		case <-l.wake:
		case <-done:
			w.flush()
			if err := l.options.Sink.Close(); err != nil {
				l.options.Logger.Error("decision log: cannot be closed", "error", err)
			}
			return
		}
		w.flush()
	}
}

// writer writes what the log has collected.
type writer struct {
	log    *Log
	lines  []byte   // with those of the log, two buffers that swap
	of     []source // of lines
	failed bool     // the last write failed, and was logged
}

func (w *writer) flush() {
	l := w.log
	l.mu.Lock()
	w.lines, l.mu.lines = l.mu.lines, w.lines[:0]
	w.of, l.mu.of = l.mu.of, w.of[:0]
	l.mu.Unlock()
	if len(w.lines) == 0 {
		return
	}
	stored, err := l.options.Sink.WriteLines(w.lines)
	l.written.Add(uint64(stored))
	for _, from := range w.of[stored:] {
		l.drop(from.share, ByWrite)
		l.missed.Add(from.missed)
	}
	switch {
	case err != nil && !w.failed:
		l.options.Logger.Error("decision log: cannot be written; decisions are dropped and counted until it can", "error", err)
	case err == nil && w.failed:
		l.options.Logger.Info("decision log: can be written again")
	}
	w.failed = err != nil
}

// keepsRequest reports whether an allowed decision is in a sample by request.
func (l *Log) keepsRequest() bool { return l.options.Sample.below(rand.Uint64()) }

// countLines returns the number of complete lines.
func countLines(lines []byte) int { return bytes.Count(lines, []byte{'\n'}) }
