package storekit

import (
	"time"

	"github.com/stintdev/stint"
)

// Change is a value that a store must save after [Decide].
type Change struct {
	Key   string
	Value []byte // nil: delete the value
	// Expires is the time from which the key is as if never used. The store may delete
	// the value then. It need not: a value that lives longer does no harm.
	Expires time.Time
}

// Keys returns the keys whose values [Decide] reads, each once, in the order of the
// claims. Keys of invalid claims are left out.
func Keys(groups []stint.Group) []string {
	var keys []string
	seen := map[string]bool{}
	for c := range Claims(groups) {
		if !seen[c.Key] && c.Validate() == nil {
			seen[c.Key] = true
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// Decide decides the groups one after the other, as [stint.Store.TakeGroups] does, on the
// values that a store keeps. It is a pure function: it does no I/O and reads no clock.
//
// values has the value that is stored for each key of [Keys]; a key without a value is as
// if never used. Decide does not change values. now is the time of the call, to the
// microsecond. All processes that share the values should take it from one clock, such as
// the database's: a clock that is behind another delays refills by the difference, and one
// that is ahead advances them. Processes with clocks of their own call [DecideWithSkew].
//
// The decisions are valid once the store has saved all changes. The store must load,
// decide and save in one atomic step: if any of the values has changed in between, it
// starts again. The error is that of TakeGroups. Some groups may be charged beside
// it, so changes are to be saved after an error too.
//
// A value holds the states of all limits of a key, and grows with their number. A store
// for limits that callers bring ([stint.Spec.FromCaller]) should bound that number.
//
// A group that may be repeated ([stint.Once]) is remembered in the value of the key of its
// first claim: at most 256 groups, and about 32 KiB, in one value. The same ID with another first key is
// another request.
func Decide(groups []stint.Group, values map[string][]byte, now time.Time, out []stint.Decision) (changes []Change, err error) {
	return DecideWithSkew(groups, values, now, 0, out)
}

// DecideWithSkew is [Decide] for processes whose clocks may be apart by up to skew. A state that
// has ended by the clock of one of them may still count by that of another one, which would begin
// the window again without it. So each state stays in its value for skew after its end, and
// Change.Expires may be up to skew before now. The store keeps the value for skew beyond that. A
// remembered group ends by the clock of each process, because their number is bounded. 0 is Decide; a
// negative skew counts as 0.
func DecideWithSkew(groups []stint.Group, values map[string][]byte, now time.Time, skew time.Duration, out []stint.Decision) (changes []Change, err error) {
	if err := CheckOut(groups, out); err != nil {
		return nil, err
	}
	clear(out)
	d := decider{now: now.UnixMicro(), ended: now.Add(-max(0, skew)).UnixMicro(), values: values}
	var failed Errors
	part := 0
	for i := range groups {
		g := &groups[i]
		charge := !g.Dry
		for j := range g.Parts() {
			claims := g.Part(j)
			var admitted bool
			var err error
			if j == 0 && g.Repeatable() {
				admitted, err = d.decideOnce(g, out[:len(claims)])
			} else {
				admitted, err = d.decide(claims, out[:len(claims)], charge)
			}
			failed.Set(part, groups, err)
			if j == 0 {
				charge = charge && admitted
			}
			part, out = part+1, out[len(claims):]
		}
	}
	return d.changes(), failed.Err()
}

// decider is one call of Decide.
type decider struct {
	now    int64
	ended  int64 // states that ended by then are left out
	values map[string][]byte
	items  []keyed        // in the order of the claims
	at     map[string]int // index in items; nil while there is one item, as nearly always
}

// keyed is an item with its key.
type keyed struct {
	key string
	*item
}

// decide decides one part of a group: first without a charge, and then, if it is
// admitted, once more to charge the claims that are allowed. The others are denied
// alternatives.
func (d *decider) decide(claims []stint.Claim, out []stint.Decision, charge bool) (admitted bool, err error) {
	if err := stint.ValidateClaims(claims); err != nil {
		return false, err
	}
	if len(claims) == 1 && charge { // nearly always
		s, err := d.state(&claims[0])
		if err != nil {
			return false, err
		}
		out[0] = s.step(&claims[0], d.now, false)
		return out[0].Allowed, nil
	}
	states := make([]*state, len(claims))
	for i := range claims {
		if states[i], err = d.state(&claims[i]); err != nil {
			return false, err
		}
	}
	for i := range claims {
		out[i] = states[i].step(&claims[i], d.now, true)
	}
	if _, binding := stint.Combine(claims, out); !binding.Allowed {
		return false, nil
	}
	for i := range claims {
		if charge && out[i].Allowed {
			out[i] = states[i].step(&claims[i], d.now, false)
		}
	}
	return true, nil
}

// state returns the state of a claim.
func (d *decider) state(c *stint.Claim) (*state, error) { return d.item(c.Key).state(c) }

// item returns the item of a key.
func (d *decider) item(key string) *item {
	if n := len(d.items); n > 0 && d.items[n-1].key == key { // claims on one key come in runs
		return d.items[n-1].item
	}
	if i, known := d.at[key]; known {
		return d.items[i].item
	}
	if len(d.items) == 1 {
		d.at = map[string]int{d.items[0].key: 0}
	}
	if d.at != nil {
		d.at[key] = len(d.items)
	}
	it := decodeItem(d.values[key])
	d.items = append(d.items, keyed{key, it})
	return it
}

// changes returns the values that differ from those that were loaded.
func (d *decider) changes() (changes []Change) {
	for _, it := range d.items {
		if value, expires, changed := it.encode(d.now, d.ended); changed {
			changes = append(changes, Change{it.key, value, time.UnixMicro(expires)})
		}
	}
	return changes
}
