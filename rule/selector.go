package rule

import (
	"math"
	"time"
)

// selector maps API keys, globs over them and networks to values, and finds the
// most specific match: an exact key before a glob, a glob before a network,
// among globs the one that fixes the most bytes, among networks the smallest.
// Among equal matches the first one added wins. An entry that has expired is
// never found.
type selector struct {
	exact    map[string]int32
	prefixes trie // indexes of globs, by their literal prefix
	globs    []glob
	values   []int32 // the value of each glob
	networks networks
	// untils holds the end of each value in µs, or forever. Nil means that nothing
	// expires.
	untils []int64
}

const forever = math.MaxInt64

// add adds a value under a key, a glob or a network. Text that parses as an
// address or network is never a glob.
func (s *selector) add(text string, value int32) {
	if p, ok := parseNetwork(text); ok {
		s.networks.add(p, value)
		return
	}
	s.addText(text, value)
}

// addText is add for a name that is always a key or a glob, even if it looks
// like a network.
func (s *selector) addText(text string, value int32) {
	g := newGlob(text)
	if !g.exact() {
		s.prefixes.add(g.prefix(), int32(len(s.globs)))
		s.globs, s.values = append(s.globs, g), append(s.values, value)
		return
	}
	if s.exact == nil {
		s.exact = make(map[string]int32)
	}
	if _, taken := s.exact[text]; !taken {
		s.exact[text] = value
	}
}

// addUntil adds the next value, counted from 0. It ends at until; 0 means that
// it does not end. A key that is added twice keeps the later end.
func (s *selector) addUntil(text string, until int64) {
	if until == 0 {
		until = forever
	}
	if i, taken := s.exact[text]; taken {
		s.untils[i] = max(s.untils[i], until)
		return
	}
	s.add(text, int32(len(s.untils)))
	s.untils = append(s.untils, until)
}

func (s *selector) hasTexts() bool    { return len(s.exact) > 0 || len(s.globs) > 0 }
func (s *selector) hasNetworks() bool { return len(s.networks.values) > 0 }
func (s *selector) empty() bool       { return !s.hasTexts() && !s.hasNetworks() }

// selected returns the selector's value for the request. A match by API key
// comes before a match by address.
func (q *request) selected(s *selector) (value int32, ok bool) {
	if s.hasTexts() {
		if key, present := q.get(slotAPIKey); present {
			if value, ok = q.selectedByText(s, key); ok {
				return value, true
			}
		}
	}
	if s.hasNetworks() {
		if a, present := q.ip(); present {
			q.buffer = s.networks.collect(a, q.buffer[:0])
			for _, value := range q.buffer {
				if q.lasts(s, value) {
					return value, true
				}
			}
		}
	}
	return 0, false
}

// selectedByText returns the value of the best match for the text.
func (q *request) selectedByText(s *selector, text string) (value int32, ok bool) {
	if value, ok = s.exact[text]; ok && q.lasts(s, value) {
		return value, true
	}
	if len(s.globs) == 0 {
		return 0, false
	}
	most := -1
	q.buffer = s.prefixes.collect(text, q.buffer[:0])
	for _, i := range q.buffer {
		g := &s.globs[i]
		better := g.literals() > most || g.literals() == most && s.values[i] < value
		if better && g.match(text) && q.lasts(s, s.values[i]) {
			value, most = s.values[i], g.literals()
		}
	}
	return value, most >= 0
}

// lasts reports whether a value has not expired. It has expired at its end. The
// clock is read only for a value that has one.
func (q *request) lasts(s *selector, value int32) bool {
	return s.untils == nil || s.untils[value] == forever || q.time() < s.untils[value]
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
