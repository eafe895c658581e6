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

// Change is what somebody wants to publish.
type Change struct {
	Files           []rule.File // the whole set; their folders do not count
	Set             *rule.Set   // of Files, when somebody has parsed them
	Author, Comment string      // at most 200 and 2000 bytes
	After           uint64      // the version that it was made from
	Anyway          bool        // publish it whatever the newest version is
}

const (
	maxAuthor  = 200
	maxComment = 2000
)

// publishTime is how long a source has to take a version.
const publishTime = 10 * time.Second

// Publish validates a whole set and makes it the newest version, which is in
// force on this node when Publish returns. It is numbered above everything that
// any node runs, so that it counts also after the source was restored from a
// backup. The error is [rule.Problems] in an [*InvalidError] when the rules have
// mistakes, [*ConflictError] when c.After is not the newest version any more,
// [ErrReadOnly] where nothing can be published; or the source has failed, and
// whether it took the version is not known then: the history tells.
func (k *Manager) Publish(ctx context.Context, c Change) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	v, err := c.version()
	if err != nil {
		return Version{}, err
	}
	v, err = k.publish(ctx, v, c)
	if err != nil {
		poke(k.wake) // what was published instead
		return Version{}, err
	}
	return v, k.take(v, false)
}

// Base is what a change is made on, and the newest version of the source
// without its files, whose number is [Change.After] then (0: there is none). They
// are the same version, but where the source went back, or has only what cannot
// be used, base is what this node runs: who changes one rule there must not lose
// the others. Where another node runs more than both, the error is
// [*BehindError], and what is returned beside it good for another whole set
// alone.
func (k *Manager) Base(ctx context.Context) (base, newest Version, err error) {
	announced := k.announced(ctx)    // first: what a node runs is in the source before
	listed, err := k.History(ctx, 2) // more than one: what is in files now may be no version
	_, base = k.Current()
	if err != nil {
		return base, Version{}, err
	}
	if len(listed) > 0 {
		newest = listed[0]
	}
	if ahead := furthest(announced, max(base.Number, newest.Number)); ahead.Version > max(base.Number, newest.Number) {
		return base, newest, &BehindError{ahead}
	}
	if newest.Number <= base.Number {
		return base, newest, nil
	}
	whole, err := k.Get(ctx, newest.Number)
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNone) {
		return base, newest, nil
	}
	return whole, newest, err
}

// attempts is how often somebody may come before a change that is to be
// published anyway.
const attempts = 10

func (k *Manager) publish(ctx context.Context, v Version, c Change) (Version, error) {
	after := c.After
	_, now := k.Current()
	v.Repaired = now.Repaired
	for range attempts {
		if c.Anyway {
			listed, err := k.Source.History(ctx, 2) // more than one: what is in files now may be no version
			if err != nil {
				return Version{}, err
			}
			after = 0
			if len(listed) > 0 {
				after = listed[0].Number
			}
		}
		v.Number = k.above(ctx, after) + 1
		if v.Number > MaxNumber {
			return Version{}, ErrNumbers
		}
		published, err := k.Source.Publish(ctx, after, v)
		if _, conflict := errors.AsType[*ConflictError](err); !conflict || !c.Anyway {
			return published, err
		}
	}
	return Version{}, fmt.Errorf("others have published %d times before this change could be (try again)", attempts)
}

// above is the highest number that any node is known to run, or after.
func (k *Manager) above(ctx context.Context, after uint64) uint64 {
	_, now := k.Current()
	known := max(after, now.Number)
	return max(known, furthest(k.announced(ctx), known).Version)
}

// announced is what nodes say that they run; nothing when they cannot be asked:
// nodes that run more keep that, and say so.
func (k *Manager) announced(ctx context.Context) []Node {
	nodes, err := k.Nodes(ctx)
	if err != nil {
		return nil
	}
	return nodes
}

// furthest is the node that says it runs the highest number, of those that are
// not far ahead of what is known: whoever can write an announcement could use up
// all numbers by it.
func furthest(nodes []Node, known uint64) (first Node) {
	for _, n := range nodes {
		if n.Version > first.Version && (n.Version <= known || n.Version-known <= farAhead) {
			first = n
		}
	}
	return first
}

// version is a change that is without mistakes.
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
		return &InvalidError{Err: rule.Problems{{File: what, What: "is longer than it may be, or no text", Mend: fmt.Sprintf("write at most %d bytes", most)}}}
	}
	return nil
}

// checkNames refuses what could not be a file beside others.
func checkNames(files []rule.File) error {
	var wrong rule.Problems
	seen := make(map[string]bool)
	for _, f := range files {
		switch {
		case seen[f.Name]:
			wrong = append(wrong, rule.Problem{File: f.Name, What: "is there twice", Mend: "give each file a name of its own"})
		case !ruleFileName(f.Name):
			wrong = append(wrong, rule.Problem{File: f.Name, What: "is not the name of a rule file", Mend: "name it like rules.yaml"})
		}
		seen[f.Name] = true
	}
	if len(files) == 0 {
		wrong = append(wrong, rule.Problem{File: "rules", What: "hold no file", Mend: "to have no rules, publish one that says rules: []"})
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
