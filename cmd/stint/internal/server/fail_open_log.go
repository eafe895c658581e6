package server

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// failOpenLog logs the requests that were admitted without a decision of the store, because
// their rule fails open: the first of each rule within a second, and then their number once
// a minute. The sum of the counts is the number of such admissions. A line has no key.
//
// There is one entry for each rule in force, and one for all limits that callers bring, so
// requests cannot make the log grow. At most failOpenLines are written each second, those of
// the greatest counts first. The other rules follow in the next seconds.
type failOpenLog struct {
	log       *slog.Logger
	lastError func() string // the kind of the store's last error

	mu struct {
		sync.Mutex

		rules map[string]*failOpenCount
	}
}

// failOpenCount counts the admissions of one rule since its last line.
type failOpenCount struct {
	rule   string
	count  int
	since  time.Time // the first of the count
	logged time.Time // the last line; zero: none yet
}

const (
	failOpenEvery = time.Minute
	failOpenLines = 20
)

// callersLimits stands for the limits that callers bring. No rule can have this name.
const callersLimits = "(limits of callers)"

func newFailOpenLog(log *slog.Logger, lastError func() string) *failOpenLog {
	f := &failOpenLog{log: log, lastError: lastError}
	f.mu.rules = map[string]*failOpenCount{}
	return f
}

// admitted counts n admissions under a rule. rule is empty for a limit that its caller
// brought.
func (f *failOpenLog) admitted(rule string, n int) {
	rule = cmp.Or(rule, callersLimits)
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.mu.rules[rule]
	if c == nil {
		c = &failOpenCount{rule: rule}
		f.mu.rules[rule] = c
	}
	if c.count == 0 {
		c.since = time.Now()
	}
	c.count += n
}

// run writes the lines until ctx ends, and then those that are left.
func (f *failOpenLog) run(ctx context.Context) {
	poll(ctx, func() { f.write(f.due(time.Now(), failOpenEvery, failOpenLines)) })
	for left := f.due(time.Now(), 0, failOpenLines); len(left) > 0; left = f.due(time.Now(), 0, failOpenLines) {
		f.write(left)
	}
}

// due returns the greatest counts, at most limit, of rules without a line for the given
// time, and begins these counts anew. It forgets rules without admissions since their last
// line.
func (f *failOpenLog) due(now time.Time, quiet time.Duration, limit int) (due []failOpenCount) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*failOpenCount
	for rule, c := range f.mu.rules {
		switch {
		case now.Sub(c.logged) < quiet:
		case c.count == 0:
			delete(f.mu.rules, rule)
		default:
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *failOpenCount) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.rule, b.rule))
	})
	for _, c := range all[:min(len(all), limit)] {
		due = append(due, *c)
		c.count, c.logged = 0, now
	}
	return due
}

func (f *failOpenLog) write(due []failOpenCount) {
	for i := range due {
		f.log.Warn("fail-open admissions: the store gave no decision, and these requests were admitted",
			"rule", due[i].rule, "count", due[i].count, "since", due[i].since.UTC(), "store_error", f.lastError())
	}
}
