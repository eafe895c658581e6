package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stintdev/stint/internal/suggest"
)

// sourceKinds are the places of an API key. All but bearer are followed by ":" and a name.
var sourceKinds = []string{"bearer", "header", "query", "cookie", "jwt"}

const maxSources = 16

// compileSources checks the sources of the API key that the files name. Package rule reads
// no requests; it checks the form of a source, so that a mistake is found where the files
// are validated.
func (c *compiler) compileSources() {
	given := c.raw.identity
	if len(given) > maxSources {
		c.mistake(given[maxSources].at, fmt.Sprintf("identity names more than %d sources", maxSources), "keep those that clients use")
		return
	}
	for _, t := range given {
		switch {
		case !isSource(t.text):
			mend := "use bearer, header:NAME, header:NAME:SCHEME, query:NAME, cookie:NAME or jwt:CLAIM"
			kind, _, _ := strings.Cut(t.text, ":")
			if near, ok := suggest.Name(kind, sourceKinds); ok && near != kind {
				mend = "did you mean " + near + "? " + mend
			}
			c.mistake(t.at, fmt.Sprintf("identity: %.80q is no source of an API key", t.text), mend)
		case slices.Contains(c.set.sources, t.text):
			c.mistake(t.at, fmt.Sprintf("identity: %.80q is named twice", t.text), "remove one")
		default:
			c.set.sources, c.set.sourcesAt = append(c.set.sources, t.text), append(c.set.sourcesAt, t.at)
		}
	}
}

func isSource(text string) bool {
	kind, name, _ := strings.Cut(text, ":")
	switch kind {
	case "bearer":
		return name == ""
	case "header":
		name, scheme, schemed := strings.Cut(name, ":")
		return isToken(name) && (!schemed || isToken(scheme))
	case "cookie":
		return isToken(name)
	}
	return slices.Contains(sourceKinds, kind) && name != ""
}

// Identity returns where the files say that requests have their API key, in order, each as
// a program or a server reads it: "bearer", "header:NAME", "header:NAME:SCHEME",
// "query:NAME", "cookie:NAME" or "jwt:CLAIM". It is empty if the files leave that to
// the server. Callers must not modify the slice.
func (s *Set) Identity() []string { return s.orZero().sources }

// CheckIdentity calls check for each source of [Set.Identity], and returns the errors as
// problems at the places of the files where the source is named.
func (s *Set) CheckIdentity(check func(source string) error) (problems Problems) {
	s = s.orZero()
	for i, source := range s.sources {
		if err := check(source); err != nil {
			at := s.sourcesAt[i]
			problems = append(problems, Problem{File: s.files[at.file], Line: int(at.line), Column: int(at.column), What: err.Error()})
		}
	}
	return problems
}
