// Package ruleset follows a rule file, or a folder of them, as it changes.
//
// A [Watcher] reads the rules once, then again whenever their content changes
// or [Watcher.Reload] is called, and hands over each set that is without
// mistakes. It promises all or nothing: rules with a mistake are reported and
// never handed over, so that the last good set goes on serving. So are rules
// that are gone rather than changed: a file that has lost every word was
// caught in the middle of being written, or emptied by a slip.
package ruleset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/stintdev/stint/internal/follow"
	"github.com/stintdev/stint/rule"
)

// Watcher follows one path. Make it by [New].
type Watcher struct {
	path     string
	onSet    func(*rule.Set)
	onError  func(error)
	follower *follow.Follower

	// Of the goroutine of Load, then of Run.
	last   [sha256.Size]byte // what was read last, be it good or bad
	filled map[string]bool   // the files of the last good set that were not blank
}

// New returns a watcher of a rule file or folder. onSet is given every set
// that [Watcher.Run] has read, onError every failure. Both are called by its
// goroutine, one at a time.
func New(path string, onSet func(*rule.Set), onError func(error)) *Watcher {
	w := &Watcher{path: path, onSet: onSet, onError: onError}
	w.follower = follow.New(path, w.read, onError)
	return w
}

// Load reads the rules before Run, which then hands over only what has changed
// since. Without it Run reads them first.
func (w *Watcher) Load() (*rule.Set, error) {
	set, _, err := w.readNew()
	return set, err
}

// Following is closed once Run notices every change.
func (w *Watcher) Following() <-chan struct{} { return w.follower.Following() }

// Reload asks Run to read the rules again, and to hand them over though
// nothing has changed: what SIGHUP does. It does not wait. It is safe for use
// by many goroutines at once.
func (w *Watcher) Reload() { w.follower.Reload() }

// Run reads the rules and follows them until ctx ends. Call it once. Rules
// that cannot be read, at first or later, are given to onError and waited for.
// When their folder cannot be watched, as on a machine whose watches are used
// up, onError is told that Reload alone makes it read them again.
func (w *Watcher) Run(ctx context.Context) { w.follower.Run(ctx) }

// read hands over the set or the mistakes, when the content is new or always
// is asked for.
func (w *Watcher) read(always bool) {
	set, changed, err := w.readNew()
	switch {
	case !changed && !always:
	case err != nil:
		w.onError(err)
	default:
		w.onSet(set)
	}
}

// readNew reads the rules, and reports whether they are others than those that
// were read last.
func (w *Watcher) readNew() (set *rule.Set, changed bool, err error) {
	files, err := rule.ReadFiles(w.path)
	sum := digest(files, err)
	changed, w.last = sum != w.last, sum
	if err == nil {
		err = w.lost(files)
	}
	if err == nil {
		set, err = rule.Parse(files...)
	}
	if err == nil {
		w.remember(files)
	}
	return set, changed, err
}

// lost refuses rules that are gone without anyone having said so.
func (w *Watcher) lost(files []rule.File) error {
	if len(files) == 0 && len(w.filled) > 0 {
		return rule.Problems{{File: w.path, What: "holds no rule file any more", Mend: "to have no rules, leave one that says rules: []"}}
	}
	for _, f := range files {
		if blank(f) && w.filled[f.Name] {
			return rule.Problems{{File: f.Name, What: "has become empty", Mend: "to have no rules, write rules: []"}}
		}
	}
	return nil
}

func blank(f rule.File) bool { return len(bytes.TrimSpace(f.Data)) == 0 }

func (w *Watcher) remember(files []rule.File) {
	w.filled = make(map[string]bool, len(files))
	for _, f := range files {
		if !blank(f) {
			w.filled[f.Name] = true
		}
	}
}

// digest tells two contents apart, or two reasons why there is none.
func digest(files []rule.File, err error) (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%v\n", err)
	for _, f := range files {
		fmt.Fprintf(h, "%d:%s%d:", len(f.Name), f.Name, len(f.Data))
		_, _ = io.Writer(h).Write(f.Data) // a hash never fails
	}
	h.Sum(sum[:0])
	return sum
}
