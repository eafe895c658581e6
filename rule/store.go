package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// DefaultStore is the name of the default store in rule files. A rule that names no store
// means the same.
const DefaultStore = "default"

var storePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// ValidStore reports whether text can be the name of a store: 1 to 32 lower-case letters,
// digits and dashes, of which the first is a letter. [DefaultStore] is such a name too.
func ValidStore(text string) bool { return storePattern.MatchString(text) }

// namedStore is a place in the files that names a store.
type namedStore struct {
	name string
	at   position
}

// storeOf returns the name of the store of a rule; empty is the default one.
func (c *compiler) storeOf(d *rawRule) string {
	name := d.store.text
	switch {
	case name == "" || name == DefaultStore:
		return ""
	case !ValidStore(name):
		c.mistake(d.store.at, fmt.Sprintf("store: %.40q is not the name of a store", name), "use up to 32 lower-case letters, digits and dashes, such as critical")
		return ""
	}
	c.set.stores = append(c.set.stores, namedStore{name, d.store.at})
	return name
}

// CheckStores returns a problem for each rule that names a store other than the default one and
// those of the given names, at the place of the file where the store is named. Use it to refuse
// rules that a program cannot apply, because it does not have the store. Rules in mode off
// are checked too, so that they can be turned on.
func (s *Set) CheckStores(names ...string) (problems Problems) {
	s = s.orZero()
	for _, n := range s.stores {
		if !slices.Contains(names, n.name) {
			problems = append(problems, Problem{
				File: s.files[n.at.file], Line: int(n.at.line), Column: int(n.at.column),
				What: fmt.Sprintf("store: there is no store %q", n.name),
				Mend: "name one of " + strings.Join(append([]string{DefaultStore}, names...), ", ") + ", or start the server with --store " + n.name + "=URL",
			})
		}
	}
	return problems
}
