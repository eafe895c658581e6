// Package filewatch reports when a file, or the contents of a folder, may have changed.
//
// A [Watcher] watches every folder in which a change of its path would show: the folder
// of the path, the folder of the file that it links to, and the folders of the links
// between them. It therefore notices a file that is replaced by a rename or by another
// link at any level, as in a mounted ConfigMap or a rolled-out release, and a folder that
// replaces the path's own.
//
// It reports once a series of events has ended. It does not read the file, and may report
// when nothing changed.
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

// Editors and copy tools write a file in several steps. A change is reported once the
// folder has been quiet for quietTime, and at the latest patience after the first event.
const (
	quietTime = 100 * time.Millisecond
	patience  = time.Second
)

// Watcher watches one path. Make one with [New].
type Watcher struct {
	path     string
	onChange func(asked bool)
	onError  func(error)
	reload   chan struct{}
	watching chan struct{}
	notify   *fsnotify.Watcher // made by Run; nil: changes are not noticed
	above    string            // folder that Run watches while the path's own folder is missing; empty: it exists
}

// New returns a watcher of a file or folder, which need not exist yet. The goroutine of
// [Watcher.Run] calls onChange once at its beginning, and then whenever something may
// have changed; asked is true if [Watcher.Reload] requested the report. onError receives
// the errors that keep changes from being noticed.
func New(path string, onChange func(asked bool), onError func(error)) *Watcher {
	return &Watcher{path: path, onChange: onChange, onError: onError, reload: make(chan struct{}, 1), watching: make(chan struct{})}
}

// Watching returns a channel that is closed once Run notices every change.
func (f *Watcher) Watching() <-chan struct{} { return f.watching }

// Reload makes Run report a change now, and does not wait for it. It is safe for
// concurrent use.
func (f *Watcher) Reload() {
	select {
	case f.reload <- struct{}{}:
	default: // already requested
	}
}

// Run watches the path until ctx ends. Call it once. If the folder cannot be watched, for
// example because the machine has no watches left, Run calls onError, and from then on
// reports only on Reload.
func (f *Watcher) Run(ctx context.Context) {
	if err := f.watch(); err != nil {
		f.onError(fmt.Errorf("%s cannot be watched; send SIGHUP when it has changed: %w", f.path, err))
	} else {
		defer f.notify.Close()
	}
	f.onChange(false)
	close(f.watching)
	f.loop(ctx)
}

// watch starts the watcher.
func (f *Watcher) watch() (err error) {
	if f.notify, err = fsnotify.NewWatcher(); err != nil {
		f.notify = nil
		return err
	}
	if err = f.watchFolders(); err != nil {
		_ = f.notify.Close() // the first error is the useful one
		f.notify = nil
	}
	return err
}

// loop handles events until ctx ends: requests to reload, changes, and the end of a quiet
// period.
func (f *Watcher) loop(ctx context.Context) {
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

func (f *Watcher) failed(err error) {
	if err != nil && !errors.Is(err, fsnotify.ErrEventOverflow) {
		f.onError(fmt.Errorf("watch %s: %w", f.path, err))
	}
}

// changed watches the current links before it reports, so that no change in between is
// missed.
func (f *Watcher) changed(asked bool) {
	if f.notify != nil {
		f.watchFoldersAgain()
	}
	f.onChange(asked)
}

// watchFolders watches the folders in which a change may show. Adding a folder twice does
// nothing.
func (f *Watcher) watchFolders() error {
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		_ = f.notify.Add(folderOf(target)) // best effort: only the path's own folder is required
	} else if folder, err := filepath.EvalSymlinks(awaitedFolder(f.path)); err == nil {
		_ = f.notify.Add(folder) // a failure counts as a removed folder, as above
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

// watchFoldersAgain is watchFolders for a path whose folder may be missing for now, for example while
// another replaces it. It watches the nearest existing parent until the folder exists
// again. It reports no error: the reader of the path does.
func (f *Watcher) watchFoldersAgain() {
	for f.watchFolders() != nil {
		above := nearestFolder(filepath.Dir(f.path))
		if above == f.above || f.notify.Add(above) != nil {
			return
		}
		f.leaveAbove()
		f.above = above // try again: the folder may have appeared before the watch began
	}
	f.leaveAbove()
}

// leaveAbove stops watching the parent folder.
func (f *Watcher) leaveAbove() {
	if f.above != "" {
		_ = f.notify.Remove(f.above) // the parent may be gone too
		f.above = ""
	}
	_ = f.watchFolders() // the path itself may need that folder
}

// nearestFolder returns the folder, or its nearest parent that exists.
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

// settling waits until a series of events ends. The zero value waits for nothing.
type settling struct {
	over  <-chan time.Time // fires when the folder is quiet; nil without events
	first time.Time        // time of the first event since then
}

// disturb restarts the wait for quietTime, within patience of the first event.
func (s *settling) disturb() {
	now := time.Now()
	if s.over == nil {
		s.first = now
	}
	s.over = time.After(min(quietTime, patience-now.Sub(s.first)))
}

// settled ends the wait.
func (s *settling) settled() { s.over = nil }
