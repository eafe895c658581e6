package cas

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/callerbudget"
	"github.com/stintdev/stint/storekit"
)

// maxLimits is the greatest number of limits with a state in one item.
const maxLimits = 64

// decide decides the calls whose callers still wait, on the items that were read. It
// returns false if there is nothing to write.
func (r *round) decide() bool {
	if r.swaps = r.swaps[:0]; r.shared || len(r.keys) > 1 {
		r.swaps = nil // the backend may still use those that it gave up
	}
	if !r.begin() {
		return false
	}
	now := r.store.timeOf(r.now)
	r.gather()
	var changes []storekit.Change
	d := decider{store: r.store, states: r.states(), now: now}
	changes, r.err = d.decide(r.groups, r.out)
	if len(changes) == 0 {
		return false
	}
	r.stamp = r.writer.stamp()
	var notBefore time.Time
	if r.recalled {
		notBefore = r.now
	}
	for i := range changes {
		c := &changes[i]
		v := r.value(c.Key)
		keep := r.mayRecall() && (v.Version == 0 && r.store.keepsNew() || v.item.lastWriter() == r.writer.id)
		swap := Swap{
			Key: c.Key, Old: v.Version, Memo: v.Memo, Decided: now, Value: v.item.encode(r.stamp, c.Value), TTL: r.store.ttl(c.Expires.Sub(now)),
			Version: newVersion(), Keep: keep, NotBefore: notBefore,
		}
		r.describe(&swap, v)
		r.swaps = append(r.swaps, swap)
		r.noteCaller(c, v, now)
	}
	slices.SortFunc(r.swaps, byKey)
	return true
}

// describe tells a backend whose items have states of several ages which states a swap changes.
func (r *round) describe(w *Swap, v *loaded) {
	if _, some := v.Memo.(Covering); some {
		w.Read, w.Lives = v.Value, livesOf(r.all)
	}
}

// noteCaller adds a value that is about to be written to the account of limits that
// callers bring. A write that is lost counts until it would have expired, so that the
// account is never too low.
func (r *round) noteCaller(c *storekit.Change, v *loaded, now time.Time) {
	if !fromCaller(c.Key) || len(c.Value) == 0 {
		return
	}
	s := r.store
	w := callerbudget.Wrote{
		After: s.ttl(c.Expires.Sub(now)).Milliseconds(), NewBytes: int64(len(c.Value) + itemHead),
		KeyBytes: int64(len(c.Key)), SentAt: s.callers.Now(), AnsweredAt: s.callers.Now(),
	}
	w.Class = callerbudget.ClassOfLife(w.After)
	if left := storekit.ExpiryOf(v.item.states).Sub(now); v.Version != 0 && left > 0 {
		if before := s.ttl(left).Milliseconds(); callerbudget.ClassOfLife(before) == w.Class {
			w.Before, w.OldBytes = before, int64(len(v.item.states)+itemHead)
		}
	}
	s.callers.Note(&w)
}

// begin leaves the calls in the round whose callers still wait, and marks them as sent. It
// returns false if there are none.
func (r *round) begin() bool {
	now := time.Now()
	r.calls = slices.DeleteFunc(r.calls, func(c *call) bool { return !c.begin(r, now) })
	return len(r.calls) > 0
}

// gather collects the groups of all calls, and makes room for their decisions.
func (r *round) gather() {
	if len(r.calls) == 1 {
		r.groups, r.out = r.calls[0].groups, r.calls[0].out
		return
	}
	claims := 0
	r.groups = make([]stint.Group, 0, len(r.calls))
	for _, c := range r.calls {
		r.groups, claims = append(r.groups, c.groups...), claims+c.claims
	}
	r.out = make([]stint.Decision, claims)
}

// share gives each call its decisions and errors.
func (r *round) share() {
	if len(r.calls) == 1 {
		r.calls[0].err = r.err
		return
	}
	parts := 0
	for _, c := range r.calls {
		_, n := stint.Sizes(c.groups)
		parts += n
	}
	errs, whole := storekit.PartErrors(r.err, parts)
	out := r.out
	for _, c := range r.calls {
		out = out[copy(c.out, out):]
		c.err = whole
		if errs != nil {
			_, n := stint.Sizes(c.groups)
			c.err = someOf(errs[:n])
			errs = errs[n:]
		}
	}
}

// someOf returns the errors of parts as that of TakeGroups.
func someOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return &stint.GroupsError{Errs: errs}
		}
	}
	return nil
}

// states returns the states in the items that were read, for [storekit.Decide]. Of an item
// that cannot be read it returns bytes that Decide cannot read either: the claims on it fail, and a
// reset replaces it.
func (r *round) states() map[string][]byte {
	if r.stored == nil {
		r.stored = make(map[string][]byte, len(r.keys))
	}
	clear(r.stored)
	for i, key := range r.keys {
		switch v := &r.values[i]; {
		case !v.ok:
			r.stored[key] = unreadable(v.Value)
		case len(v.item.states) > 0:
			r.stored[key] = v.item.states
		}
	}
	return r.stored
}

// unreadable returns as many bytes as a value has, and at least one, which Decide cannot
// read.
func unreadable(value []byte) []byte { return make([]byte, max(1, len(value))) }

// value returns the item of a key.
func (r *round) value(key string) *loaded {
	at, _ := slices.BinarySearch(r.keys, key)
	return &r.values[at]
}

// decider is [storekit.Decide] with bounds on the values: a part of a group that would
// exceed them is refused.
type decider struct {
	store  *Store
	states map[string][]byte // by key, as they were read or as the parts so far have left them
	now    time.Time
}

func (d *decider) decide(groups []stint.Group, out []stint.Decision) ([]storekit.Change, error) {
	changes, err := storekit.DecideWithSkew(groups, d.states, d.now, d.store.options.Slack, out)
	for i := range changes {
		if d.admit(&changes[i]) != nil {
			return d.decideParts(groups, out)
		}
	}
	return changes, err
}

// admit returns an error for a changed value that is out of bounds. A value that has too
// many limits already may change as long as it gets no more.
func (d *decider) admit(c *storekit.Change) error {
	before := d.states[c.Key]
	switch n := len(c.Value); {
	case n+maxHead > MaxValue:
		return full(c.Key)
	case n > 4*maxLimits: // a state has more bytes than that
		if limits := storekit.CountLimits(c.Value); limits > maxLimits && limits > storekit.CountLimits(before) {
			return full(c.Key)
		}
	}
	if fromCaller(c.Key) && d.overBudget(c, len(c.Value) > len(before)) {
		return errBudget
	}
	return nil
}

// errBudget says that the budget of limits that callers bring has no room. A claim gets the
// error of the account, which counts it.
var errBudget = errors.New("no room")

// overBudget reports whether the budget of limits that callers bring has no room for a
// value. The last quarter is for values that do not grow.
func (d *decider) overBudget(c *storekit.Change, grows bool) bool {
	a, class := d.store.callers, callerbudget.ClassOfLife(d.store.ttl(c.Expires.Sub(d.now)).Milliseconds())
	return len(c.Value) > 0 && (grows && a.Closed(class) || a.Level(class) >= a.Share)
}

// decideParts decides the parts of the groups one after the other, which is slower, and
// refuses those that are out of bounds.
func (d *decider) decideParts(groups []stint.Group, out []stint.Decision) ([]storekit.Change, error) {
	changed := map[string]storekit.Change{}
	var failed storekit.Errors
	part := 0
	for i := range groups {
		g := &groups[i]
		dry := g.Dry
		for j := range g.Parts() {
			one := stint.Group{Claims: g.Part(j), Dry: dry}
			if j == 0 {
				one.Once = g.Once
			}
			decisions := out[:len(one.Claims)]
			err := d.decidePart(one, changed, decisions)
			failed.Set(part, groups, err)
			if j == 0 {
				dry = dry || err != nil || !freshlyAdmitted(one.Claims, decisions)
			}
			part, out = part+1, out[len(decisions):]
		}
	}
	return slices.Collect(maps.Values(changed)), failed.Err()
}

// decidePart decides one part, and adds what it changes to the states and to changed unless
// it is refused.
func (d *decider) decidePart(g stint.Group, changed map[string]storekit.Change, out []stint.Decision) error {
	changes, err := storekit.DecideWithSkew([]stint.Group{g}, d.states, d.now, d.store.options.Slack, out)
	if errs, _ := storekit.PartErrors(err, 1); errs != nil {
		return errs[0]
	}
	for i := range changes {
		switch err := d.admit(&changes[i]); {
		case errors.Is(err, errBudget):
			clear(out)
			return d.store.callers.Refuse()
		case err != nil:
			clear(out)
			return err
		}
	}
	for _, c := range changes {
		d.states[c.Key], changed[c.Key] = c.Value, c
	}
	return nil
}

// freshlyAdmitted reports whether a group was admitted by this call, and not by an earlier
// one that it repeats.
func freshlyAdmitted(claims []stint.Claim, out []stint.Decision) bool {
	_, binding := stint.Combine(claims, out)
	return binding.Allowed && !binding.Repeated
}

// timeOf returns the time of decisions: that of the options, of the server when it read
// the items, or of this process.
func (s *Store) timeOf(server time.Time) time.Time {
	switch {
	case s.options.Clock != nil:
		return s.options.Clock()
	case !server.IsZero():
		return server
	}
	return time.Now()
}

// newVersion returns a version for a swap.
func newVersion() uint64 {
	return uint64(1 + rand.Int64N(math.MaxInt64))
}

// ttl returns how long an item must be kept whose states expire after some time.
func (s *Store) ttl(left time.Duration) time.Duration {
	return max(left, s.options.KeepFor) + s.options.Slack
}
