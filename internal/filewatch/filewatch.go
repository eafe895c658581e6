// Package filewatch notices when a file, or what is in a folder, may have
// changed.
//
// A [Follower] watches the folders in which a change of its path would show:
// that of the path, that of what it links to, and those of the links on the
// way, so that a file replaced by renaming, or by another link at any level (as
// a mounted ConfigMap or a rolled out release is), counts, and so does a folder
// that takes the place of the path's own. It reports
// once a disturbance is over, reads nothing itself, and may report what turns
// out to be no change.
package filewatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Editors and copies write a file in several steps: it is read when its folder
// has been quiet for so long, and at the latest so long after the first step.
const (
	quietTime = 100 * time.Millisecond
	patience  = time.Second
)

// Follower follows one path. Make it by [New].
type Follower struct {
	path      string
	onChange  func(asked bool)
	onError   func(error)
	reload    chan struct{}
	following chan struct{}
	notify    *fsnotify.Watcher // of Run; nil: what changes is not noticed
	above     string            // watched by Run while the folder of the path is gone; empty: it is there
}

// New returns a follower of a file or folder, which need not exist yet.
// onChange is called by the goroutine of [Follower.Run], once at its beginning
// and then whenever something may have changed; asked is true when
// [Follower.Reload] asked for it. onError is told what keeps changes from being
// noticed.
func New(path string, onChange func(asked bool), onError func(error)) *Follower {
	return &Follower{path: path, onChange: onChange, onError: onError, reload: make(chan struct{}, 1), following: make(chan struct{})}
}

// Following is closed once Run notices every change.
func (f *Follower) Following() <-chan struct{} { return f.following }

// Reload asks Run to report a change now. It does not wait. It is safe for use
// by many goroutines at once.
func (f *Follower) Reload() {
	select {
	case f.reload <- struct{}{}:
	default: // asked for already
	}
}

// Run follows the path until ctx ends. Call it once. When its folder cannot be
// watched, as on a machine whose watches are used up, onError is told that
// Reload alone makes a change known.
func (f *Follower) Run(ctx context.Context) {
	if err := f.watch(); err != nil {
		f.onError(fmt.Errorf("%s cannot be watched; send SIGHUP when it has changed: %w", f.path, err))
	} else {
		defer f.notify.Close()
	}
	f.onChange(false)
	close(f.following)
	f.loop(ctx)
}

// watch begins to notice changes.
func (f *Follower) watch() (err error) {
	if f.notify, err = fsnotify.NewWatcher(); err != nil {
		f.notify = nil
		return err
	}
	if err = f.follow(); err != nil {
		_ = f.notify.Close() // the first error says more
		f.notify = nil
	}
	return err
}

// loop waits for what happens first: the end, a wish to reload, an event, or
// the quiet after events.
func (f *Follower) loop(ctx context.Context) {
	var quiet settling
	var events <-chan fsnotify.Event
	var failures <-chan error
	if f.notify != nil {
		events, failures = f.notify.Events, f.notify.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.reload:
			quiet.settled()
			f.changed(true)
		case <-events:
			quiet.disturb()
		case err := <-failures:
			f.failed(err)
			quiet.disturb() // events may have been lost
		case <-quiet.over:
			quiet.settled()
			f.changed(false)
		}
	}
}

func (f *Follower) failed(err error) {
	if err != nil && !errors.Is(err, fsnotify.ErrEventOverflow) {
		f.onError(fmt.Errorf("watch %s: %w", f.path, err))
	}
}

// changed follows links anew before it reports, so that what changes in
// between is noticed.
func (f *Follower) changed(asked bool) {
	if f.notify != nil {
		f.followOn()
	}
	f.onChange(asked)
}

// follow watches the folders in which a change may show. Watching one again
// does nothing.
func (f *Follower) follow() error {
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		_ = f.notify.Add(folderOf(target)) // the path's own folder matters more
	} else if folder, err := filepath.EvalSymlinks(awaitedFolder(f.path)); err == nil {
		_ = f.notify.Add(folder) // likewise
	}
	for _, folder := range linkFolders(f.path) {
		_ = f.notify.Add(folder) // likewise
	}
	if err := f.notify.Add(filepath.Dir(f.path)); err != nil {
		return err
	}
	if info, err := os.Stat(f.path); err == nil && info.IsDir() {
		return f.notify.Add(f.path)
	}
	return nil
}

// followOn is follow where the folder may be gone for now, as while another takes
// its place: the nearest folder above is watched until it is there again. Whoever
// reads tells of it.
func (f *Follower) followOn() {
	for f.follow() != nil {
		above := nearestFolder(filepath.Dir(f.path))
		if above == f.above || f.notify.Add(above) != nil {
			return
		}
		f.leaveAbove()
		f.above = above // and once more: the folder may have come before it was watched
	}
	f.leaveAbove()
}

// leaveAbove watches no more than the path needs.
func (f *Follower) leaveAbove() {
	if f.above != "" {
		_ = f.notify.Remove(f.above) // it may be gone as well
		f.above = ""
	}
	_ = f.follow() // which may have needed it, too
}

// nearestFolder is the folder, or the nearest above it that is there.
func nearestFolder(path string) string {
	for path != filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

func folderOf(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}
