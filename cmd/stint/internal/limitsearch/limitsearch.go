// Package limitsearch finds the least limits that deny less than a share of
// recorded requests, and less than the same share of their callers.
//
// Use it to choose the numbers of a limit from a log of real traffic, where
// package replay tells what a limit that is already chosen would have done. The
// command is "stint suggest".
//
// Every answer is exact: a replay of it denies what the report says, and a
// replay of one unit less denies too much. The requests of each caller are
// decided on their own, because limits of one kind never share counts between
// callers; they are kept in memory meanwhile, in about five bytes each.
package limitsearch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// Options configures a search.
type Options struct {
	// Replay says how the inputs are read, and by which attribute callers are
	// counted.
	Replay replay.Options

	// DenyBelow is the share of requests, and of callers, that a limit must deny
	// less of: above 0 and at most 1.
	DenyBelow float64

	// Busiest is the number of callers to list. Above 0 the search also keeps the key of each
	// caller in memory.
	Busiest int
}

// Report is the result of a search.
type Report struct {
	replay.Reading

	By        string  `json:"by"`
	DenyBelow float64 `json:"deny_below"`
	// LeftOut counts the refunds and peeks among the events. A search ignores them.
	LeftOut int64 `json:"left_out"`

	// Busiest are the callers with the most requests, the busiest first.
	Busiest []Busy `json:"busiest,omitempty"`

	Windows []Window `json:"windows"`
	// Buckets are the token buckets of the frontier, by rate: every other bucket
	// that denies little enough has the rate and the burst of one of them, or more.
	Buckets []Bucket `json:"buckets"`
	// Suggested is the bucket of the frontier that lets one caller do least within
	// a minute. Nil: no bucket was found.
	Suggested *Bucket `json:"suggested"`
}

// Window is what is known for one length of a window.
type Window struct {
	Window time.Duration `json:"-"`
	Name   string        `json:"window"`
	// Peaks are how many units callers used at most within any time of this length.
	Peaks Percentiles `json:"peaks"`

	FixedWindow      *Found `json:"fixed_window"`       // nil: no such limit denies little enough
	SlidingWindowLog *Found `json:"sliding_window_log"` // nil also if it exceeds what a log can hold
}

// Percentiles are those of callers: P99 is the least peak that 99 % of the
// callers do not exceed.
type Percentiles struct {
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p99_9"`
	Max  int64 `json:"max"`
}

// Found is the least limit that denies little enough.
type Found struct {
	Limit int64 `json:"limit"`
	Denial
}

// Bucket is a token bucket of Rate units a minute, with the least burst that
// denies little enough.
type Bucket struct {
	Rate  int64 `json:"rate"`
	Burst int64 `json:"burst"`
	Denial
}

// Denial is what a limit denies.
type Denial struct {
	Denied        int64   `json:"denied"`
	ShareDenied   float64 `json:"share_denied"`   // share of requests, 0 to 1
	CallersDenied int64   `json:"callers_denied"` // denied at least once
	ShareCallers  float64 `json:"share_callers"`  // share of callers, 0 to 1
}

var windows = [...]struct {
	name   string
	length time.Duration
}{{"1s", time.Second}, {"1m", time.Minute}, {"1h", time.Hour}, {"1d", 24 * time.Hour}}

// Find reads the inputs and returns the least limits.
//
// If ctx ends while the inputs are read, Find searches the events read until then, and the error
// comes with a report that is marked as cut short. If ctx ends during the search, the report has no
// limits.
func Find(ctx context.Context, options Options, inputs ...replay.Input) (Report, error) {
	if !(options.DenyBelow > 0 && options.DenyBelow <= 1) {
		return Report{}, fmt.Errorf("deny-below: %v is out of range (use a share above 0 and at most 1)", options.DenyBelow)
	}
	options.Replay.Rules = nil
	callers := newCallers(options.Busiest > 0)
	reading, err := replay.ReadKeys(ctx, options.Replay, callers.add, inputs...)
	report := Report{Reading: reading, By: options.Replay.By, DenyBelow: options.DenyBelow, LeftOut: callers.leftOut, Windows: []Window{}, Buckets: []Bucket{}}
	if reading.Events == 0 || callers.events == 0 { // after a panic, the reading has no events
		return report, err
	}
	if reading.CutShort {
		ctx = context.WithoutCancel(ctx)
	}
	report.Busiest = callers.busiest(&options)
	s := search{callers: callers, below: options.DenyBelow}
	if ended := s.fill(ctx, &report); ended != nil {
		report.Windows = []Window{}
		return report, errors.Join(err, ended)
	}
	return report, err
}

// search looks for limits over the requests of all callers.
type search struct {
	callers *callers
	below   float64
}

// fill sets the windows and the buckets. Each is a task of its own, because they
// share nothing but the requests, which they only read.
func (s *search) fill(ctx context.Context, report *Report) error {
	report.Windows = make([]Window, len(windows))
	rates := s.rates()
	buckets := make([]*Bucket, len(rates))
	var tasks []func()
	for i, w := range windows {
		report.Windows[i] = Window{Window: w.length, Name: w.name}
		out := &report.Windows[i]
		tasks = append(tasks, func() { out.FixedWindow = s.find(fixedWindow{w.length.Microseconds()}, nil, stint.MaxLimit) },
			func() {
				out.SlidingWindowLog = s.find(slidingLog{w.length.Microseconds()}, &out.Peaks, stint.MaxLogLimit)
			})
	}
	for i, rate := range rates {
		tasks = append(tasks, func() {
			if found := s.find(newTokenBucket(rate), nil, stint.MaxLimit); found != nil {
				buckets[i] = &Bucket{rate, found.Limit, found.Denial}
			}
		})
	}
	if err := inParallel(ctx, tasks); err != nil {
		return err
	}
	report.Buckets, report.Suggested = frontier(buckets)
	return nil
}

// inParallel runs the tasks on all processors. It starts no more when ctx is
// done.
func inParallel(ctx context.Context, tasks []func()) error {
	var group sync.WaitGroup
	queue := make(chan func())
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for task := range queue {
				task()
			}
		})
	}
	for _, task := range tasks {
		if ctx.Err() == nil {
			queue <- task
		}
	}
	close(queue)
	group.Wait()
	return ctx.Err()
}

// rates returns the rates of buckets to try, in units a minute: 1, 2, 5, 10 and
// so on, up to the most that a caller used within a second.
func (s *search) rates() (rates []int64) {
	most := int64(0)
	second := slidingLog{time.Second.Microseconds()}
	for i := range s.callers.list {
		most = max(most, second.peak(&s.callers.list[i]))
	}
	most = min(most, stint.MaxRate) * 60
	for unit := int64(1); unit <= stint.MaxLimit/10; unit *= 10 {
		for _, rate := range []int64{unit, 2 * unit, 5 * unit} {
			rates = append(rates, rate)
			if rate >= most {
				return rates
			}
		}
	}
	return rates
}

// frontier returns the buckets that no bucket of a lower rate replaces, and the
// one that admits least within a minute.
func frontier(all []*Bucket) (kept []Bucket, least *Bucket) {
	kept = []Bucket{}
	for _, b := range all {
		if b == nil || len(kept) > 0 && b.Burst >= kept[len(kept)-1].Burst {
			continue
		}
		kept = append(kept, *b)
	}
	for i := range kept {
		if least == nil || kept[i].Rate+kept[i].Burst < least.Rate+least.Burst {
			least = &kept[i]
		}
	}
	return kept, least
}

// meter decides the requests of one caller by one kind of limit, whose number
// varies.
type meter interface {
	// peak returns the least limit that denies the caller nothing.
	peak(c *caller) int64
	// denied returns how many requests a limit denies.
	denied(c *caller, limit int64) int64
}

// find returns the least limit, up to most, that denies little enough. Below
// it, one unit less denies too much. Nil means that there is none.
//
// A caller is denied if its peak exceeds the limit, so the share of callers is
// known from the peaks alone. Only the callers above a limit need to be decided
// to know the share of requests: less than the share searched for.
func (s *search) find(m meter, peaks *Percentiles, most int64) *Found {
	list := make([]peak, len(s.callers.list))
	for i := range list {
		list[i] = peak{m.peak(&s.callers.list[i]), int32(i)}
	}
	slices.SortFunc(list, func(a, b peak) int { return cmp.Compare(b.most, a.most) })
	if peaks != nil {
		*peaks = percentiles(list)
	}
	low, high := int64(0), min(list[0].most, most) // no limit is 0
	best, ok := s.try(m, list, high)
	if !ok {
		return nil
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		if found, ok := s.try(m, list, middle); ok {
			high, best = middle, found
		} else {
			low = middle
		}
	}
	return &best
}

// peak is the least limit that denies a caller nothing.
type peak struct {
	most   int64
	caller int32
}

// try decides the requests under a limit, and reports whether it denies little
// enough. It stops as soon as it denies too much.
func (s *search) try(m meter, list []peak, limit int64) (f Found, ok bool) {
	f.Limit = limit
	f.CallersDenied = int64(len(list)) - int64(sortedBelow(list, limit))
	f.ShareCallers = float64(f.CallersDenied) / float64(len(list))
	if f.ShareCallers >= s.below {
		return f, false
	}
	for _, p := range list[:f.CallersDenied] {
		f.Denied += m.denied(&s.callers.list[p.caller], limit)
		if f.ShareDenied = float64(f.Denied) / float64(s.callers.events); f.ShareDenied >= s.below {
			return f, false
		}
	}
	return f, true
}

// sortedBelow returns the number of peaks that do not exceed the limit. The list
// descends.
func sortedBelow(list []peak, limit int64) int {
	at, _ := slices.BinarySearchFunc(list, limit, func(p peak, limit int64) int {
		if p.most > limit {
			return -1
		}
		return 1
	})
	return len(list) - at
}

// percentiles returns those of a list that descends, by the nearest rank.
func percentiles(list []peak) Percentiles {
	at := func(perMille int) int64 { return list[len(list)-(len(list)*perMille+999)/1000].most }
	return Percentiles{P50: at(500), P90: at(900), P99: at(990), P999: at(999), Max: list[0].most}
}
