package rule

// KeyPatterns are the API keys and the patterns of API keys that a rule set names: in tiers,
// conditions, overrides and lists. Patterns that match every text are left out.
//
// A program that writes texts of callers to a log can mask what may be a key.
type KeyPatterns struct{ selector selector }

// KeyPatterns returns the API keys and patterns of the set.
func (s *Set) KeyPatterns() *KeyPatterns {
	s = s.orZero()
	p := &KeyPatterns{}
	p.include(&s.tiers.byKey)
	p.include(&s.lists.allow)
	p.include(&s.lists.deny)
	for _, r := range s.rules {
		if r.match.apiKey != nil {
			p.add(r.match.apiKey.text)
		}
		for _, one := range []*selector{&r.overriddenBy, &r.temporarily, &r.lists.allow, &r.lists.deny} {
			p.include(one)
		}
	}
	return p
}

// include adds the keys and globs of a selector, whether or not they have expired.
func (p *KeyPatterns) include(s *selector) {
	for text := range s.exact {
		p.add(text)
	}
	for i := range s.globs {
		p.add(s.globs[i].text)
	}
}

func (p *KeyPatterns) add(text string) {
	if g := newGlob(text); !g.any() {
		p.selector.addText(text, 0)
	}
}

// Match reports whether a text is one of the keys or fits a pattern. It is safe for
// concurrent use.
func (p *KeyPatterns) Match(text string) bool {
	if _, ok := p.selector.exact[text]; ok {
		return true
	}
	if len(p.selector.globs) == 0 {
		return false
	}
	for _, i := range p.selector.prefixes.collect(text, nil) {
		if p.selector.globs[i].match(text) {
			return true
		}
	}
	return false
}
