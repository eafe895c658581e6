package replay

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// Retries is what a client does after a denial. A recording has only the
// requests that clients made while nothing was denied; a limit that denies makes
// them come again, and their retries are load, too.
type Retries uint8

// What a client does after a denial.
const (
	NoRetries     Retries = iota
	PoliteRetries         // it waits for as long as the decision says
	HammerRetries         // it comes again every 100 ms
)

var retryNames = [...]string{NoRetries: "none", PoliteRetries: "polite", HammerRetries: "hammer"}

// RetryNames returns the names that [ParseRetries] knows.
func RetryNames() []string { return slices.Clone(retryNames[:]) }

// ParseRetries returns what has one of the [RetryNames].
func ParseRetries(name string) (Retries, error) {
	if at := slices.Index(retryNames[:], name); at >= 0 {
		return Retries(at), nil
	}
	return 0, fmt.Errorf("retries: %.40q is not known (use one of %s)", name, strings.Join(retryNames[:], ", "))
}

// String returns the name.
func (r Retries) String() string { return retryNames[r] }

// The bounds of retries. A client gives up after mostRetries. When the retries
// that wait are too many or their texts too long, further clients give up at
// once and are counted.
const (
	mostRetries      = 10
	hammerEvery      = 100 * time.Millisecond
	mostWaiting      = 1 << 20
	mostWaitingBytes = 256 << 20
)

// RetrySummary is what the retries of denied clients did.
type RetrySummary struct {
	Retries  string `json:"retries"`  // polite or hammer
	Recorded int64  `json:"recorded"` // events of the recording that were decided
	Retried  int64  `json:"retried"`  // retries that were decided
	// Amplification is how many requests there were for each recorded one.
	Amplification float64 `json:"amplification"`

	DeniedFirst int64 `json:"denied_first"` // recorded requests that were denied
	ServedLater int64 `json:"served_later"` // of these, admitted at a retry
	GaveUp      int64 `json:"gave_up"`      // of these, not admitted
	NoRoom      int64 `json:"no_room"`      // of those that gave up, for the bound on waiting retries

	CallersDenied int64 `json:"callers_denied"` // keys of requests that were denied at first
	CallersServed int64 `json:"callers_served"` // of these, keys all of whose requests were admitted in the end
	// WaitP50US and WaitP99US are percentiles of the time from the request to its
	// admission, of the requests served later, to three digits.
	WaitP50US int64 `json:"wait_p50_us"`
	WaitP99US int64 `json:"wait_p99_us"`
}

// retry is a request that is to come again.
type retry struct {
	pending

	first   int64 // time of the recorded request
	attempt int   // 1: the first retry
}

// size returns the bytes of the texts, which are one if rules are replayed.
func (r *retry) size() int {
	if r.text == r.raw {
		return len(r.raw)
	}
	return len(r.text) + len(r.raw)
}

// retrier decides the events of a replay together with the retries that their
// denials cause, in order of time.
type retrier struct {
	*replay

	how     Retries
	waiting retryHeap
	bytes   int // of the texts of those that wait
	counts  RetrySummary
	denied  *keySet
	lost    *keySet         // keys of requests that gave up
	waits   map[int64]int64 // number of requests, by their wait to three digits
}

func newRetrier(r *replay, how Retries) *retrier {
	return &retrier{replay: r, how: how, denied: newKeySet(), lost: newKeySet(), waits: map[int64]int64{}}
}

// decide decides the retries before a recorded event, and then the event.
func (r *retrier) decide(ctx context.Context, p *pending) error {
	if err := r.retryBefore(ctx, p.t, p.order); err != nil {
		return err
	}
	if decided, err := r.decideOne(ctx, p); !decided {
		return err
	}
	r.counts.Recorded++
	if r.result.decision.Allowed || p.cost < 1 {
		return nil
	}
	r.counts.DeniedFirst++
	r.denied.add(rule.KeyText(r.result.key))
	next := retry{*p, p.t, 0}
	next.raw = strings.Clone(p.raw) // the texts would hold their whole block in memory
	if next.text = next.raw; p.text != p.raw {
		next.text = strings.Clone(p.text)
	}
	next.caller = 0 // a decision log stands for recorded requests, not for their retries
	r.again(next)
	return nil
}

// finish decides the retries after the last recorded event.
func (r *retrier) finish(ctx context.Context) error {
	return r.retryBefore(ctx, math.MaxInt64, 0)
}

// retryBefore decides the retries before a time and order.
func (r *retrier) retryBefore(ctx context.Context, t int64, order uint64) error {
	for len(r.waiting) > 0 && r.waiting[0].before(t, order) {
		next := *heap.Pop(&r.waiting).(*retry) //nolint:forcetypeassert // the heap holds nothing else
		r.bytes -= next.size()
		decided, err := r.decideOne(ctx, &next.pending)
		if err != nil {
			return err
		}
		if r.counts.Retried++; r.counts.Retried%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		switch {
		case !decided: // an invalid event is invalid again, so it is not reached
		case r.result.decision.Allowed:
			r.counts.ServedLater++
			r.waits[threeDigits(next.t-next.first+r.result.decision.Delay.Microseconds())]++
		default:
			r.again(next)
		}
	}
	return nil
}

// decideOne reports whether the event was decided, that is, whether it was
// valid.
func (r *retrier) decideOne(ctx context.Context, p *pending) (decided bool, err error) {
	before := r.replay.counts.Events
	err = r.replay.decide(ctx, p)
	return err == nil && r.replay.counts.Events > before, err
}

// again plans the next retry of a request that was just denied, unless its
// client gives up.
func (r *retrier) again(next retry) {
	wait := r.result.decision.RetryAfter
	if r.how == HammerRetries {
		wait = hammerEvery
	}
	next.attempt++
	room := len(r.waiting) < mostWaiting && r.bytes+next.size() <= mostWaitingBytes
	if next.attempt > mostRetries || wait == stint.Never || !room {
		r.counts.GaveUp++
		r.lost.add(rule.KeyText(r.result.key))
		if next.attempt <= mostRetries && wait != stint.Never {
			r.counts.NoRoom++
		}
		return
	}
	next.t += max(1, wait.Microseconds())
	r.bytes += next.size()
	heap.Push(&r.waiting, &next)
}

// summary returns the counts, or nil without retries.
func (r *retrier) summary() *RetrySummary {
	if r == nil {
		return nil
	}
	s := r.counts
	s.Retries = r.how.String()
	if s.Recorded > 0 {
		s.Amplification = float64(s.Recorded+s.Retried) / float64(s.Recorded)
	}
	s.CallersDenied = int64(r.denied.count)
	s.CallersServed = s.CallersDenied - int64(r.lost.count)
	s.WaitP50US, s.WaitP99US = r.percentile(50), r.percentile(99)
	return &s
}

// percentile returns a percentile of the waits, by the nearest rank.
func (r *retrier) percentile(percent int64) int64 {
	waits := make([]int64, 0, len(r.waits))
	for w := range r.waits {
		waits = append(waits, w)
	}
	slices.Sort(waits)
	rank := (r.counts.ServedLater*percent + 99) / 100
	for _, w := range waits {
		if rank -= r.waits[w]; rank <= 0 {
			return w
		}
	}
	return 0
}

// threeDigits rounds up to three significant digits.
func threeDigits(n int64) int64 {
	unit := int64(1)
	for n/unit >= 1000 {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}

// retryHeap holds retries in order of time, input and line.
type retryHeap []*retry

func (r *retry) before(t int64, order uint64) bool {
	return r.t < t || r.t == t && r.order < order
}

// Len, Less, Swap, Push and Pop are those of [heap.Interface].
func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].before(h[j].t, h[j].order) }
func (h retryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push appends a *retry.
func (h *retryHeap) Push(x any) { *h = append(*h, x.(*retry)) } //nolint:forcetypeassert // heap.Push gives nothing else

// Pop removes the last one.
func (h *retryHeap) Pop() any {
	last := len(*h) - 1
	popped := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return popped
}

// write writes the summary as lines of a table.
func (s *RetrySummary) write(w io.Writer) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "\nretries\t%s\n", s.Retries)
	fmt.Fprintf(w, "requests\t%d recorded and %d retries, %.2f for each recorded one\n", s.Recorded, s.Retried, s.Amplification)
	fmt.Fprintf(w, "denied at first\t%d requests of %d callers\n", s.DeniedFirst, s.CallersDenied)
	if s.DeniedFirst == 0 {
		return
	}
	fmt.Fprintf(w, "served later\t%d requests (%s), %d callers wholly (%s)\n", s.ServedLater, percent(float64(s.ServedLater)/float64(s.DeniedFirst)),
		s.CallersServed, percent(float64(s.CallersServed)/float64(s.CallersDenied)))
	fmt.Fprintf(w, "waited\tp50 %v, p99 %v\n", time.Duration(s.WaitP50US)*time.Microsecond, time.Duration(s.WaitP99US)*time.Microsecond)
	fmt.Fprintf(w, "gave up\t%d requests\n", s.GaveUp)
	if s.NoRoom > 0 {
		fmt.Fprintf(w, "not exact\t%d of them at once, because more than %d retries waited\n", s.NoRoom, mostWaiting)
	}
}
