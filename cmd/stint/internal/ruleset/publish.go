package ruleset

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stintdev/stint/rule"
)

// Change is a request to publish rules.
type Change struct {
	Files           []rule.File // the whole set; folders in the names are ignored
	Set             *rule.Set   // the parsed Files, if available
	Author, Comment string      // at most 200 and 2000 bytes
	After           uint64      // the version that the change is based on
	Anyway          bool        // publish even if After is not the newest version

	// Canary tries the files on a share of the callers, beside the version After. Nil
	// publishes them for all.
	Canary *CanaryOptions

	endsCanary bool // After is a version with a canary, which this version ends
}

const (
	maxAuthor  = 200
	maxComment = 2000
)

// publishTime is the timeout of a publish.
const publishTime = 10 * time.Second

// Publish validates a whole set and makes it the newest version, which is in
// force on this node when Publish returns. The number is higher than that of
// every version that any node runs, so the version also takes effect after the
// source was restored from a backup.
//
// The error is [rule.Problems] in an [*InvalidError] when the rules have
// mistakes, [*ConflictError] when c.After is no longer the newest version, and
// [*CanaryError] while a canary is on, [ErrNoCanary] when the source cannot carry one, and
// [ErrReadOnly] when the source accepts no versions. Any other error is a
// failure of the source. Whether the version was published is then unknown; the
// history tells.
func (m *Manager) Publish(ctx context.Context, c Change) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	v, err := c.version()
	if err == nil && c.Canary != nil {
		v, err = m.canary(ctx, v, &c)
	}
	if err == nil {
		_, err = m.setOf(&v)
	}
	if err != nil {
		return Version{}, err
	}
	v, err = m.publish(ctx, v, c)
	if err != nil {
		poke(m.wake) // fetch the version that was published instead
		return Version{}, err
	}
	return v, m.accept(v, false)
}

// Base returns the version that a change should start from, and the newest
// version of the source without its files. The number of newest is the value
// for [Change.After]; 0 means that there is none.
//
// Both are normally the same version. If the source went back or its newest
// version is unusable, base is the version that this node runs, so that a
// change of one rule does not lose the other rules. If another node runs a
// higher version than both, the error is [*BehindError], and the returned
// versions may be used only to publish another whole set. While a canary is on,
// the error is [*CanaryError].
func (m *Manager) Base(ctx context.Context) (base, newest Version, err error) {
	announced := m.announced(ctx)    // before History: a version that a node runs is already in the source
	listed, err := m.History(ctx, 2) // 2, because a history of 1 fails while the current files are invalid
	_, base = m.Current()
	if err != nil {
		return base, Version{}, err
	}
	if len(listed) > 0 {
		newest = listed[0]
	}
	if ahead := furthest(announced, max(base.Number, newest.Number)); ahead.Version > max(base.Number, newest.Number) {
		return base, newest, &BehindError{ahead}
	}
	if newest.Canary != nil {
		return base, newest, &CanaryError{newest.Number}
	}
	if newest.Number <= base.Number {
		return base, newest, nil
	}
	whole, err := m.Get(ctx, newest.Number)
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNone) {
		return base, newest, nil
	}
	return whole, newest, err
}

// attempts is the number of conflicts that a change with Anyway survives.
const attempts = 10

func (m *Manager) publish(ctx context.Context, v Version, c Change) (Version, error) {
	after := c.After
	_, now := m.Current()
	v.Repaired = now.Repaired
	if now.Canary != nil && now.Number == after && !c.Anyway && !c.endsCanary {
		return Version{}, &CanaryError{now.Number}
	}
	for range attempts {
		if c.Anyway {
			listed, err := m.Source.History(ctx, 2) // 2, because a history of 1 fails while the current files are invalid
			if err != nil {
				return Version{}, err
			}
			after = 0
			if len(listed) > 0 {
				after = listed[0].Number
				if listed[0].Canary != nil {
					return Version{}, &CanaryError{after}
				}
			}
		}
		v.Number = m.above(ctx, after) + 1
		if v.Number > MaxNumber {
			return Version{}, ErrNumbers
		}
		published, err := m.Source.Publish(ctx, after, v)
		if _, conflict := errors.AsType[*ConflictError](err); !conflict || !c.Anyway {
			return published, err
		}
	}
	return Version{}, fmt.Errorf("other publishes came first %d times in a row (try again)", attempts)
}

// above returns the highest number that any node is known to run, at least
// after.
func (m *Manager) above(ctx context.Context, after uint64) uint64 {
	_, now := m.Current()
	known := max(after, now.Number)
	return max(known, furthest(m.announced(ctx), known).Version)
}

// announced returns the nodes that announce themselves. It returns nothing when
// they cannot be listed; a node that runs a higher version then keeps it and
// reports that.
func (m *Manager) announced(ctx context.Context) []Node {
	nodes, err := m.Nodes(ctx)
	if err != nil {
		return nil
	}
	return nodes
}

// furthest returns the node that announces the highest version number. It ignores numbers far
// ahead of known, so that a client that can write announcements cannot use up all numbers.
func furthest(nodes []Node, known uint64) (first Node) {
	for _, n := range nodes {
		if n.Version > first.Version && (n.Version <= known || n.Version-known <= farAhead) {
			first = n
		}
	}
	return first
}

// version validates the change and turns it into a version.
func (c *Change) version() (Version, error) {
	v := Version{Time: time.Now().UTC(), Author: c.Author, Comment: c.Comment, Files: plainNames(c.Files), set: c.Set}
	if err := errors.Join(checkText("author", c.Author, maxAuthor), checkText("comment", c.Comment, maxComment), checkNames(v.Files)); err != nil {
		return Version{}, err
	}
	v.Hash = HashOf(v.Files)
	_, err := v.Set()
	return v, err
}

func checkText(what, text string, most int) error {
	if len(text) > most || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return &InvalidError{Err: rule.Problems{{File: what, What: "is too long or not valid text", Mend: fmt.Sprintf("write at most %d bytes", most)}}}
	}
	return nil
}

// checkNames rejects file names that are invalid or occur twice.
func checkNames(files []rule.File) error {
	var wrong rule.Problems
	seen := make(map[string]bool)
	for _, f := range files {
		switch {
		case seen[f.Name]:
			wrong = append(wrong, rule.Problem{File: f.Name, What: "occurs twice", Mend: "give each file its own name"})
		case !ruleFileName(f.Name):
			wrong = append(wrong, rule.Problem{File: f.Name, What: "is not the name of a rule file", Mend: "name it like rules.yaml"})
		}
		seen[f.Name] = true
	}
	if len(files) == 0 {
		wrong = append(wrong, rule.Problem{File: "rules", What: "contain no file", Mend: "to have no rules, publish one that says rules: []"})
	}
	if wrong == nil {
		return nil
	}
	return &InvalidError{Err: wrong}
}

func ruleFileName(name string) bool {
	return name == path.Base(filepath.ToSlash(name)) && !strings.HasPrefix(name, ".") && len(name) <= 200 &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '/' || r == '\\' || r == utf8.RuneError }) &&
		slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}
