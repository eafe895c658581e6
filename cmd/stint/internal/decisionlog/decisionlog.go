// Package decisionlog writes a log of decisions: all that is denied or degraded, and a
// sample of what is allowed. stint replay reads it.
//
// Use it to see who was denied and why, and to try rules on yesterday's traffic. The log is
// never in the way of a check: a line goes to a buffer of bounded size, which one goroutine
// empties. Whatever does not fit is dropped and counted, by rule and reason. The lines of
// denied and degraded decisions and the drops together are exactly those decisions.
//
// A line has no identity whole. An identity appears as a hash of 64 bits under a key of the
// operator, and shortened.
package decisionlog

import (
	"cmp"
	"log/slog"
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
	// Rate bounds the lines of denied and degraded decisions a second, of all rules together.
	// Half of it is divided equally among the rules, so that an attack on one rule hides no
	// other; the other half is for any rule. Of more rules than that half has lines, each has
	// one line in turn. 0 or less: [DefaultRate].
	Rate   int
	Key    Key              // of the hashes of identities; the zero Key: a random one
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger
}

// DefaultRate is the default of [Options].Rate.
const DefaultRate = 1000

// Sink stores lines.
type Sink interface {
	// WriteLines stores complete lines, each of which is a JSON object and ends with a line
	// feed. It returns how many it stored, from the first on. It may block: lines are then
	// dropped and counted. One goroutine calls the methods of a sink.
	WriteLines(lines []byte) (stored int, err error)
	// Close ends the sink.
	Close() error
}

// Reopener is a [Sink] that opens its file again after [Log.Reopen], because another program
// has renamed it.
type Reopener interface{ Reopen() error }

// The reasons for which lines are dropped.
const (
	ByRate    = "rate"   // more denied and degraded decisions than Rate
	ByQueue   = "queue"  // the sink is slower than the decisions
	ByWrite   = "write"  // the sink failed
	OfAllowed = "sample" // a line of the sample of allowed decisions, by queue or write
)

var reasons = [...]string{ByRate, ByQueue, ByWrite, OfAllowed}

// Drop is a number of dropped decisions.
type Drop struct {
	Rule   string // "" for decisions of no rule, such as those of a deny list; [Takes]
	Reason string
	Count  uint64
}

// maxBuffer bounds the bytes that wait for the sink; another buffer is being written. Lines of
// allowed decisions may use half of it, so a flood of these hides no denial.
const maxBuffer = 4 << 20

// flushEvery is the longest time that a line waits for the sink.
const flushEvery = 200 * time.Millisecond

// Log collects lines and writes them. Its methods are safe for concurrent use.
type Log struct {
	options Options
	allowed atomic.Uint64 // lines that the sink has stored
	denied  atomic.Uint64 // the same of denied and degraded decisions
	writing atomic.Int64  // lines that the sink has at the moment
	reopen  atomic.Bool   // the sink is to open its file again
	wake    chan struct{} // holds a value when the writer is to look at once
	takes   *share        // of limits that callers bring
	none    *share        // of decisions that no rule made
	rates   rates
	began   time.Time // the minute from which minuteOf counts
	missed  missed

	mu struct {
		sync.Mutex

		lines   []byte
		of      []source // of each line
		rules   []string // ids of the rules in force
		domains []string // of Envoy's rate limit service
		shares  map[string]*share
	}
}

// source says what a line stands for.
type source struct {
	share   *share
	notable bool   // denied or degraded
	missed  uint64 // what the line says was dropped before it
	minute  uint64 // of the line, or of the first decision that was dropped before it
}

// share is what one rule may write, and what was dropped of it.
type share struct {
	own     window // of its own lines
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
	if o.Key.IsZero() {
		o.Key = NewKey()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{options: o, wake: make(chan struct{}, 1), began: o.Now().Truncate(time.Minute), takes: &share{}, none: &share{}}
	l.assignLocked() // nobody else has the log yet
	return l
}

// Rules returns the recorder of a rule set. The counts of rules that neither the set nor those in
// force beside it have are forgotten.
func (l *Log) Rules(set *rule.Set, beside ...*rule.Set) *Recorder {
	r := &Recorder{log: l, patterns: set.KeyPatterns(), shares: map[*rule.Rule]*share{}, names: hashedNames(set)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.rules = nil
	for _, inForce := range append(beside, set) {
		for _, one := range inForce.Rules() {
			l.mu.rules = append(l.mu.rules, one.ID)
		}
	}
	slices.Sort(l.mu.rules)
	l.mu.rules = slices.Compact(l.mu.rules)
	l.assignLocked()
	for _, one := range set.Rules() {
		r.shares[one] = l.mu.shares[one.ID]
	}
	return r
}

// assignLocked gives each rule and each domain its share, and divides the rate among them.
func (l *Log) assignLocked() {
	shares := map[string]*share{Takes: l.takes, "": l.none}
	for _, id := range slices.Concat(l.mu.rules, l.mu.domains) {
		if shares[id] = l.mu.shares[id]; shares[id] == nil {
			shares[id] = &share{}
		}
	}
	l.mu.shares = shares
	l.rates.divide(l.options.Rate, len(shares))
}

// Written returns the number of lines that the sink has stored: those of the sample of
// allowed decisions, and those of denied and degraded decisions.
func (l *Log) Written() (allowed, denied uint64) { return l.allowed.Load(), l.denied.Load() }

// Waiting returns the number of lines that are neither stored nor dropped.
func (l *Log) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.of) + int(l.writing.Load())
}

// Reopen has the sink open its file again, soon. A sink without a file ignores it.
func (l *Log) Reopen() {
	l.reopen.Store(true)
	l.wakeWriter()
}

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

// drop counts a decision of a minute that is not in the log.
func (l *Log) drop(s *share, notable bool, reason string, minute uint64) {
	if !notable {
		reason = OfAllowed
	}
	s.dropped[slices.Index(reasons[:], reason)].Add(1)
	l.missed.add(1, minute)
}

// append adds a line to the buffer, or drops it. line has no end yet.
func (l *Log) append(s *share, c *choice, line []byte) {
	most := maxBuffer
	if !c.notable {
		most /= 2
	}
	from := source{share: s, notable: c.notable, minute: l.minuteOf(c.now)}
	l.mu.Lock()
	if len(l.mu.lines)+len(line) > most {
		l.mu.Unlock()
		l.drop(s, c.notable, ByQueue, from.minute)
		return
	}
	l.mu.lines = append(l.mu.lines, line...)
	if n, minute := l.missed.take(); n > 0 {
		from.missed, from.minute = n, min(from.minute, minute)
		l.mu.lines = appendInt(append(l.mu.lines, `,"dropped_before":`...), int64(n))
		l.mu.lines = appendInt(append(l.mu.lines, `,"dropped_since_us":`...), l.began.Add(time.Duration(minute)*time.Minute).UnixMicro())
	}
	l.mu.lines = append(l.mu.lines, "}\n"...)
	l.mu.of = append(l.mu.of, from)
	full := len(l.mu.lines) > maxBuffer/4
	l.mu.Unlock()
	if full {
		l.wakeWriter()
	}
}

func (l *Log) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// keepsRequest reports whether an allowed decision is in a sample by request.
func (l *Log) keepsRequest() bool { return l.options.Sample.below(rand.Uint64()) }

// keepsCaller reports whether a caller is in a sample by caller. Nodes with the same key
// agree on it.
func (l *Log) keepsCaller(caller string) bool {
	return l.options.Sample.below(l.options.Key.draw(caller))
}
