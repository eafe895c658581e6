// Package ruleset follows a rule file, or a folder of them, as it changes.
//
// A [Watcher] reads the rules once, then again whenever their content changes
// or [Watcher.Reload] is called, and hands over each set that is without
// mistakes. It promises all or nothing: rules with a mistake are reported and
// never handed over, so that the last good set goes on serving.
package ruleset

import (
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
	path    string
	onSet   func(*rule.Set)
	onError func(error)
	reload  chan struct{}
	last    [sha256.Size]byte // what was read last, be it good or bad
}

// New returns a watcher of a rule file or folder. onSet is given every set
// that was read, the first included; onError every failure. Both are called
// by the goroutine of [Watcher.Run], one at a time.
func New(path string, onSet func(*rule.Set), onError func(error)) *Watcher {
	return &Watcher{path: path, onSet: onSet, onError: onError, reload: make(chan struct{}, 1)}
}

// Watch is shorthand for [New] and [Watcher.Run].
func Watch(ctx context.Context, path string, onSet func(*rule.Set), onError func(error)) error {
	return New(path, onSet, onError).Run(ctx)
}

// Reload asks Run to read the rules again, and to hand them over though
// nothing has changed: what SIGHUP does. It does not wait. It is safe for use
// by many goroutines at once.
func (w *Watcher) Reload() {
	select {
	case w.reload <- struct{}{}:
	default: // asked for already
	}
}

// Run reads the rules and follows them until ctx ends, and then returns nil.
// Rules that cannot be read, at first or later, are given to onError and
// waited for. An error means that their folder cannot be watched; nothing was
// read then.
//
// What is watched are folders, that of the file and that of what it links to:
// a file that is replaced by renaming, or by another link (as a mounted
// ConfigMap is), counts as changed.
func (w *Watcher) Run(ctx context.Context) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.path, err)
	}
	defer notify.Close()
	if err := w.follow(notify); err != nil {
		return fmt.Errorf("watch %s: %w", w.path, err)
	}
	w.read(true)
	w.loop(ctx, notify)
	return nil
}

// loop waits for what happens first: the end, a wish to reload, an event, or
// the quiet after events.
func (w *Watcher) loop(ctx context.Context, notify *fsnotify.Watcher) {
	var quiet settling
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.reload:
			quiet.settled()
			w.reread(notify, true)
		case <-notify.Events:
			quiet.disturb()
		case err := <-notify.Errors:
			w.failed(err)
			quiet.disturb() // events may have been lost
		case <-quiet.over:
			quiet.settled()
			w.reread(notify, false)
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
func (w *Watcher) reread(notify *fsnotify.Watcher, always bool) {
	_ = w.follow(notify) // a folder that is gone for now is met by read
	w.read(always)
}

// follow watches the folders in which a change may show. Watching one again
// does nothing.
func (w *Watcher) follow(notify *fsnotify.Watcher) error {
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		_ = notify.Add(folderOf(target)) // the path's own folder matters more
	}
	if err := notify.Add(filepath.Dir(w.path)); err != nil {
		return err
	}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		return notify.Add(w.path)
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
	files, err := rule.ReadFiles(w.path)
	sum := digest(files, err)
	if sum == w.last && !always {
		return
	}
	w.last = sum
	var set *rule.Set
	if err == nil {
		set, err = rule.Parse(files...)
	}
	if err != nil {
		w.onError(err)
		return
	}
	w.onSet(set)
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
