package rule

import "time"

// list is an allow or deny list. Entries are permanent or expire at a time.
type list struct {
	always selector
	timed  timed
}

func (l *list) empty() bool { return l.always.empty() && l.timed.empty() }

func (l *list) add(entry rawEntry) {
	if entry.until == 0 {
		l.always.add(entry.text, 0)
		return
	}
	l.timed.extend(entry.text, entry.until)
}

// timed is a selector whose values are consecutive indexes from 0, each with an
// expiry.
type timed struct {
	selector

	names  map[string]int32
	untils []int64 // in µs
}

// add adds the next value under a name and reports whether the name is new.
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

// extend is like add, but for an existing name it keeps the later expiry.
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

// live is selected without expired values. It reads the clock only if a name
// matches.
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

// liveText is byText without expired values.
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

// lasts reports whether a value has not expired. It has expired at its end
// time.
func (q *request) lasts(t *timed, value int32) bool {
	return q.time() < t.untils[value]
}

// time returns the time of the decision where the store provides none. All
// rules of one request see the same time.
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
