package rule

import (
	"context"

	"github.com/stintdev/stint"
)

// File is the content of one rule file.
type File struct {
	Name string // in messages
	Data []byte
}

// Set is a whole rule set. It never changes and is safe for use by many
// goroutines at once.
type Set struct {
	rules    []*Rule
	warnings Problems
}

// Parse reads the files as one rule set. The error is [Problems]: every
// mistake, and no set.
func Parse(files ...File) (*Set, error) { return nil, Problems{} }

// Load reads a file, or every *.yaml, *.yml and *.json of a folder in order of
// their names, as one rule set. The error is [Problems].
func Load(path string) (*Set, error) { return nil, Problems{} }

// Builtin returns the rule set of a server that was given none.
func Builtin() *Set { return nil }

// Rules returns the rules in file order. Do not change them.
func (s *Set) Rules() []*Rule { return s.rules }

// Warnings returns what is no mistake but may not be meant.
func (s *Set) Warnings() Problems { return s.warnings }

// Decide finds the rules that match the request and takes their claims.
// cost is what the request uses where its rules do not say. It is shorthand
// for DecideInto with an Outcome of its own.
func (s *Set) Decide(ctx context.Context, store stint.Store, a Attributes, cost int64) (Outcome, error) {
	var o Outcome
	err := s.DecideInto(ctx, store, a, cost, &o)
	return o, err
}

// DecideInto is Decide into an Outcome whose Hits are used again.
func (s *Set) DecideInto(ctx context.Context, store stint.Store, a Attributes, cost int64, o *Outcome) error {
	return nil
}
