package rule

import "time"

// list is who is on a list: for good, or until a time.
type list struct {
	always selector
	timed  timed
}

func (l *list) empty() bool { return l.always.empty() && l.timed.empty() }

func (l *list) add(entry entryDraft) {
	if entry.until == 0 {
		l.always.add(entry.text, 0)
		return
	}
	l.timed.extend(entry.text, entry.until)
}

// timed is a selector whose values, counted from 0, each end at a time.
type timed struct {
	selector

	names  map[string]int32
	untils []int64 // in µs
}

// add names the next value, and reports whether the name is new.
func (t *timed) add(text string, until int64) bool {
	if t.names == nil {
		t.names = make(map[string]int32)
	}
	_, taken := t.names[text]
	i := int32(len(t.untils))
	t.selector.add(text, i)
	t.names[text], t.untils = i, append(t.untils, until)
	return !taken
}

// extend is add that keeps the later end of a name that is there already.
func (t *timed) extend(text string, until int64) {
	if i, taken := t.names[text]; taken {
		t.untils[i] = max(t.untils[i], until)
		return
	}
	t.add(text, until)
}

// listed reports whether the request is on the list.
func (q *request) listed(l *list) bool {
	if _, ok := q.selected(&l.always); ok || l.timed.empty() {
		return ok
	}
	_, ok := q.live(&l.timed)
	return ok
}

// live is selected among what has not ended. The clock is read only when
// something fits.
func (q *request) live(t *timed) (value int32, ok bool) {
	if t.hasTexts() {
		if key, present := q.get(slotAPIKey); present {
			if value, ok = q.liveText(t, key); ok {
				return value, true
			}
		}
	}
	if t.hasNetworks() {
		if a, present := q.ip(); present {
			q.buffer = t.networks.collect(a, q.buffer[:0])
			for _, i := range q.buffer {
				if q.lasts(t, i) {
					return i, true
				}
			}
		}
	}
	return 0, false
}

// liveText is byText among what has not ended.
func (q *request) liveText(t *timed, text string) (value int32, ok bool) {
	if value, ok = t.exact[text]; ok && q.lasts(t, value) {
		return value, true
	}
	most := -1
	q.buffer = t.prefixes.collect(text, q.buffer[:0])
	for _, i := range q.buffer {
		g := &t.globs[i]
		better := g.literals() > most || g.literals() == most && t.values[i] < value
		if better && g.match(text) && q.lasts(t, t.values[i]) {
			value, most = t.values[i], g.literals()
		}
	}
	return value, most >= 0
}

// lasts reports whether a value has not ended: at its end it has.
func (q *request) lasts(t *timed, value int32) bool {
	return q.time() < t.untils[value]
}

// time is when the request is decided, where no store says so: one moment for
// all of its rules.
func (q *request) time() int64 {
	if q.now == 0 {
		if timed, ok := q.attributes.(Timed); ok {
			q.now = timed.At()
		} else {
			q.now = time.Now().UnixMicro()
		}
	}
	return q.now
}
