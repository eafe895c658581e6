package rule

import "net/netip"

// selector maps API keys, globs over them and networks to values, and finds the
// most specific match: an exact key before a glob, a glob before a network,
// among globs the one that fixes the most bytes, among networks the smallest.
// Among equal matches the first one added wins.
type selector struct {
	exact    map[string]int32
	prefixes trie // indexes of globs, by their literal prefix
	globs    []glob
	values   []int32 // the value of each glob
	networks networks
}

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
	if g.exact() {
		s.addExact(text, value)
		return
	}
	s.prefixes.add(g.prefix(), int32(len(s.globs)))
	s.globs, s.values = append(s.globs, g), append(s.values, value)
}

func (s *selector) addExact(text string, value int32) {
	if s.exact == nil {
		s.exact = make(map[string]int32)
	}
	if _, taken := s.exact[text]; !taken {
		s.exact[text] = value
	}
}

func (s *selector) hasTexts() bool    { return len(s.exact) > 0 || len(s.globs) > 0 }
func (s *selector) hasNetworks() bool { return len(s.networks.values) > 0 }
func (s *selector) empty() bool       { return !s.hasTexts() && !s.hasNetworks() }

// byText returns the value of the best match for the text. buffer is scratch
// space.
func (s *selector) byText(text string, buffer *[]int32) (value int32, ok bool) {
	if value, ok = s.exact[text]; ok || len(s.globs) == 0 {
		return value, ok
	}
	most := -1
	*buffer = s.prefixes.collect(text, (*buffer)[:0])
	for _, i := range *buffer {
		g := &s.globs[i]
		better := g.literals() > most || g.literals() == most && s.values[i] < value
		if better && g.match(text) {
			value, most = s.values[i], g.literals()
		}
	}
	return value, most >= 0
}

// byAddress returns the value of the smallest network that contains the
// address.
func (s *selector) byAddress(a netip.Addr, buffer *[]int32) (value int32, ok bool) {
	*buffer = s.networks.collect(a, (*buffer)[:0])
	if len(*buffer) == 0 {
		return 0, false
	}
	return (*buffer)[0], true
}
