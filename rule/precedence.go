package rule

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint"
)

// level holds the limit parameters from one place: an override, a rule, a tier,
// the defaults, or one item of a list of limits. A nil level has no parameters.
type level struct {
	spec  stint.Spec
	given [parameterCount]bool
	at    [parameterCount]position
	// spoiled means that a parameter could not be read. Errors that follow from the
	// missing parameter are not reported.
	spoiled bool
}

func (l *level) has(p parameter) bool { return l != nil && l.given[p] }

// namesRate reports whether the level sets a rate. A window alone is not a
// rate.
func (l *level) namesRate() bool { return l.has(pLimit) || l.has(pRefillRate) }

// set parses one parameter. The limit may have the short form, such as 100/m,
// which sets both limit and window.
func (l *level) set(p parameter, t located) error {
	if p == pLimit {
		if short, err := stint.ParseSpec(t.text); err == nil {
			return l.setShort(short, t.at)
		}
	}
	if l.given[p] {
		return &stint.LimitError{Field: parameterNames[p], Problem: "is given twice here", Mend: "give it once; burst is another name of capacity, and limit: 100/m names a window"}
	}
	l.given[p], l.at[p] = true, t.at
	return p.parse(t.text, &l.spec)
}

func (l *level) setShort(short stint.Spec, at position) error {
	for _, p := range []parameter{pLimit, pWindow} {
		if l.given[p] {
			return &stint.LimitError{Field: parameterNames[p], Problem: "is given twice here", Mend: "the short form is both limit and window; give it alone"}
		}
		l.take(p, &level{spec: short, at: [parameterCount]position{pLimit: at, pWindow: at}})
	}
	return nil
}

// take copies one parameter from another level.
func (l *level) take(p parameter, from *level) {
	p.copy(&l.spec, &from.spec)
	l.given[p], l.at[p] = true, from.at[p]
}

// limited returns the parameters of the level that the algorithm uses. A limit
// belongs to the time unit beside it: a limit per window does not apply to the
// calendar period of a quota, and the reverse.
func (l *level) limited(a stint.Algorithm) *level {
	if l == nil {
		return nil
	}
	used := &level{spoiled: l.spoiled}
	for p := range parameterCount {
		if l.given[p] && p.takes(a) {
			used.take(p, l)
		}
	}
	other := pPeriod
	if a == stint.Quota {
		other = pWindow
	}
	if l.given[other] {
		used.given[pLimit], used.spec.Limit = false, 0
	}
	return used
}

// merge combines levels, the nearest first. The nearest level that sets a rate
// provides the rate. Each other parameter comes from the nearest level that
// sets it. A window applies only to the kind of rate that it stands beside.
func merge(levels ...*level) *level {
	m := &level{}
	for _, l := range levels {
		m.spoiled = m.spoiled || l != nil && l.spoiled
	}
	for _, p := range []parameter{pAlgorithm, pCapacity, pBuckets, pQueue, pMaxWait, pPeriod, pAnchor, pUTCOffset} {
		m.takeNearest(p, levels)
	}
	rate := &level{}
	for _, l := range levels {
		if l.namesRate() {
			rate = l
			break
		}
	}
	for _, p := range []parameter{pLimit, pRefillRate} {
		if rate.given[p] {
			m.take(p, rate)
		}
	}
	m.takeWindow(levels)
	return m
}

func (l *level) takeNearest(p parameter, levels []*level) {
	for _, from := range levels {
		if from.has(p) {
			l.take(p, from)
			return
		}
	}
}

// takeWindow takes the nearest window, except one that stands beside only the
// other kind of rate.
func (l *level) takeWindow(levels []*level) {
	for _, from := range levels {
		if !from.has(pWindow) {
			continue
		}
		if !from.namesRate() || from.given[pLimit] && l.given[pLimit] || from.given[pRefillRate] && l.given[pRefillRate] {
			l.take(pWindow, from)
			return
		}
	}
}

// shape returns the parameters that the items of a list of limits inherit: the
// algorithm and the bucket count, but not the rate.
func (l *level) shape() *level {
	s := &level{}
	s.takeNearest(pAlgorithm, []*level{l})
	s.takeNearest(pBuckets, []*level{l})
	return s
}

// missing returns an error when a parameter is missing that the others need.
func (l *level) missing() error {
	needsLimit := l.spec.Algorithm != stint.TokenBucket || l.has(pWindow) && !l.has(pRefillRate)
	switch {
	case !l.has(pLimit) && needsLimit && !l.has(pRefillRate):
		return &stint.LimitError{Field: "limit", Problem: "is missing", Mend: "give the number of units that the window or period allows"}
	case l.has(pLimit) && !l.has(pWindow) && l.spec.Algorithm != stint.Quota && !l.has(pRefillRate):
		return &stint.LimitError{Field: "window", Problem: "is missing beside limit", Mend: "give one, such as 60 or 1m, or write the limit as 100/m"}
	case l.has(pMaxWait) && !l.has(pQueue) && l.spec.Algorithm == stint.LeakyBucket:
		return &stint.LimitError{Field: "queue", Problem: "is missing beside max_wait, so no request could wait", Mend: "give the number of requests that may wait"}
	}
	return nil
}

// place returns the position of the parameter that a [stint.LimitError] names,
// or the fallback.
func (l *level) place(err error, fallback position) position {
	if p, ok := l.fieldOf(err); ok {
		return l.at[p]
	}
	return fallback
}

// fieldOf returns the parameter that a [stint.LimitError] names, if the level
// sets it.
func (l *level) fieldOf(err error) (parameter, bool) {
	wrong, ok := errors.AsType[*stint.LimitError](err)
	if !ok {
		return 0, false
	}
	p, known := parameterOf(wrong.Field)
	return p, known && l.given[p]
}

// parameter reads one parameter of a limit into the level, under the name that
// the file uses.
func (r *reader) parameter(name string, n *yaml.Node, into **level) {
	p, _ := parameterOf(name)
	if *into == nil {
		*into = &level{}
	}
	t, ok := r.text(n, name)
	if !ok {
		(*into).spoiled = true
		return
	}
	if err := (*into).set(p, t); err != nil && !r.denying {
		(*into).spoiled = true
		if p != pWindow && p != pMaxWait {
			err = mendZero(t.text, err)
		}
		r.limitMistake(t.at, asNamed(name, err))
	}
}

// mendZero adds advice for a limit of 0: how to write a rule that denies
// everything.
func mendZero(text string, err error) error {
	var wrong *stint.LimitError
	if zero, ok := decimal(text); ok && zero.Sign() == 0 && errors.As(err, &wrong) {
		return &stint.LimitError{Field: wrong.Field, Problem: wrong.Problem, Mend: wrong.Mend + "; to deny everything, write deny_all: true"}
	}
	return err
}

// whole parses the integer of a field. It returns the value otherwise if the field is absent or
// has a mistake.
func (f *findings) whole(field string, t located, otherwise, least, most int64) int64 {
	if t.text == "" {
		return otherwise
	}
	n, err := whole(field, t.text, least, most)
	if err != nil {
		f.limitMistake(t.at, err)
		return otherwise
	}
	return n
}

// limitMistake records a [stint.LimitError].
func (f *findings) limitMistake(at position, err error) {
	var wrong *stint.LimitError
	if !errors.As(err, &wrong) {
		f.mistake(at, err.Error(), "")
		return
	}
	f.mistake(at, wrong.Field+": "+wrong.Problem, wrong.Mend)
}

// withParameters adds the limit parameters, and params, a mapping of them, to
// the known fields of a mapping that holds a level.
func withParameters[T any](known fields[T], of func(*T) **level) fields[T] {
	for _, name := range append([]string{"burst"}, parameterNames[:]...) {
		known[name] = func(r *reader, n *yaml.Node, into *T) { r.parameter(name, n, of(into)) }
	}
	return known
}
