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
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/stintdev/stint/rule"
)

// Editors and copies write a file in several steps: it is read when its folder
// has been quiet for so long, and at the latest so long after the first step.
const (
	quietTime = 100 * time.Millisecond
	patience  = time.Second
)

// Watcher follows one path. Make it by [New].
type Watcher struct {
	path      string
	onSet     func(*rule.Set)
	onError   func(error)
	reload    chan struct{}
	following chan struct{}

	// Of the goroutine of Load, then of Run.
	notify *fsnotify.Watcher // nil: what changes is not noticed
	last   [sha256.Size]byte // what was read last, be it good or bad
	filled map[string]bool   // the files of the last good set that were not blank
}

// New returns a watcher of a rule file or folder. onSet is given every set
// that [Watcher.Run] has read, onError every failure. Both are called by its
// goroutine, one at a time.
func New(path string, onSet func(*rule.Set), onError func(error)) *Watcher {
	return &Watcher{path: path, onSet: onSet, onError: onError, reload: make(chan struct{}, 1), following: make(chan struct{})}
}

// Load reads the rules before Run, which then hands over only what has changed
// since. Without it Run reads them first.
func (w *Watcher) Load() (*rule.Set, error) {
	set, _, err := w.readNew()
	return set, err
}

// Following is closed once Run notices every change.
func (w *Watcher) Following() <-chan struct{} { return w.following }

// Reload asks Run to read the rules again, and to hand them over though
// nothing has changed: what SIGHUP does. It does not wait. It is safe for use
// by many goroutines at once.
func (w *Watcher) Reload() {
	select {
	case w.reload <- struct{}{}:
	default: // asked for already
	}
}

// Run reads the rules and follows them until ctx ends. Call it once. Rules
// that cannot be read, at first or later, are given to onError and waited for.
// When their folder cannot be watched, as on a machine whose watches are used
// up, onError is told that Reload alone makes it read them again.
//
// What is watched are folders, that of the file and that of what it links to:
// a file that is replaced by renaming, or by another link (as a mounted
// ConfigMap is), counts as changed.
func (w *Watcher) Run(ctx context.Context) {
	if err := w.watch(); err != nil {
		w.onError(fmt.Errorf("%s cannot be watched; send SIGHUP when it has changed: %w", w.path, err))
	} else {
		defer w.notify.Close()
	}
	w.read(false)
	close(w.following)
	w.loop(ctx)
}

// watch begins to notice changes.
func (w *Watcher) watch() (err error) {
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		w.notify = nil
		return err
	}
	if err = w.follow(); err != nil {
		_ = w.notify.Close() // the first error says more
		w.notify = nil
	}
	return err
}

// loop waits for what happens first: the end, a wish to reload, an event, or
// the quiet after events.
func (w *Watcher) loop(ctx context.Context) {
	var quiet settling
	var events <-chan fsnotify.Event
	var failures <-chan error
	if w.notify != nil {
		events, failures = w.notify.Events, w.notify.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.reload:
			quiet.settled()
			w.reread(true)
		case <-events:
			quiet.disturb()
		case err := <-failures:
			w.failed(err)
			quiet.disturb() // events may have been lost
		case <-quiet.over:
			quiet.settled()
			w.reread(false)
		}
	}
}

func (w *Watcher) failed(err error) {
	if err != nil && !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.onError(fmt.Errorf("watch %s: %w", w.path, err))
	}
}

// reread follows links anew before it reads, so that what changes in between
// is noticed.
func (w *Watcher) reread(always bool) {
	if w.notify != nil {
		_ = w.follow() // a folder that is gone for now is met by read
	}
	w.read(always)
}

// follow watches the folders in which a change may show. Watching one again
// does nothing.
func (w *Watcher) follow() error {
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		_ = w.notify.Add(folderOf(target)) // the path's own folder matters more
	}
	if err := w.notify.Add(filepath.Dir(w.path)); err != nil {
		return err
	}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		return w.notify.Add(w.path)
	}
	return nil
}

func folderOf(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

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
