package ruleset

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/filewatch"
	"github.com/stintdev/stint/rule"
)

// Files is a [Source] in a rule file or a folder of rule files, which people
// and other programs may also edit. Each valid content that it reads there
// becomes a version. Make it by [NewFiles].
type Files struct {
	path    string
	history history
	watcher *filewatch.Watcher
	log     *slog.Logger

	mu        sync.Mutex
	changed   func() // the callback of Watch
	stale     bool   // the files may have changed
	scheduled bool   // a read is scheduled because of a pending version
	latest    Version
	rejected  error // why the current files are not a version; nil: they are the latest
}

// history stores versions.
type history interface {
	list(n int) []Version
	newest() Version
	get(number uint64) (Version, error)
	add(v Version) error
	remove(number uint64)
}

// historyNotWritten is the log message when a version is in force but not in the
// history.
const historyNotWritten = "rules: the history of versions cannot be written (set --state-dir to a writable folder)"

// NewFiles returns the source for a file or folder. It keeps the history in the
// folder dir, which several processes may share. With an empty dir the history
// is in memory and numbered from 1.
func NewFiles(path, dir string, log *slog.Logger) *Files {
	f := &Files{path: path, history: &Memory{}, stale: true, log: log}
	if dir != "" {
		f.history = &archive{dir, wholeOnDisk, listedOnDisk}
	}
	f.latest = f.history.newest()
	f.watcher = filewatch.New(path, func(bool) { f.markStale() }, func(err error) { f.log.Error("rules: " + err.Error()) })
	return f
}

// String returns the path.
func (f *Files) String() string { return f.path }

// Watch calls changed whenever the files may have changed, until ctx ends.
func (f *Files) Watch(ctx context.Context, changed func()) {
	f.mu.Lock()
	f.changed = changed
	f.mu.Unlock()
	f.watcher.Run(ctx)
}

// Refresh makes the next read go to the files even if no change was announced.
func (f *Files) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
}

func (f *Files) markStale() {
	f.mu.Lock()
	f.stale = true
	onwards := f.changed
	f.mu.Unlock()
	if onwards != nil {
		onwards()
	}
}

// History lists the newest versions. It reads the files first if they may have
// changed.
func (f *Files) History(_ context.Context, n int) ([]Version, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		f.rejected = f.readLocked()
		f.stale = false
	}
	switch {
	case n > 1:
		return f.listLocked(n), nil
	case f.rejected != nil:
		return nil, f.rejected
	}
	return []Version{f.latest.listed()}, nil
}

// listLocked returns the history. It includes the latest version even if that
// could not be written to the history.
func (f *Files) listLocked(n int) []Version {
	all := f.history.list(n)
	if f.latest.Number > 0 && (len(all) == 0 || all[0].Number < f.latest.Number) {
		all = append([]Version{f.latest.listed()}, all[:min(len(all), n-1)]...)
	}
	return all
}

// Get returns a version with its files.
func (f *Files) Get(_ context.Context, number uint64) (Version, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number == f.latest.Number && number > 0 {
		return f.latest, nil
	}
	return f.history.get(number)
}

// readLocked reads the files and makes their content the latest version, unless
// it is already.
func (f *Files) readLocked() error {
	files, err := readFiles(f.path)
	if err != nil {
		return err
	}
	f.checkLaterLocked(folder(f.path))
	plain := plainNames(files)
	v := Version{Time: time.Now().UTC(), Comment: "read from " + f.path, Hash: HashOf(plain), Files: plain}
	if f.latest.Hash == v.Hash {
		return invalid(f.sameLocked(files))
	}
	if err := rule.CheckEmptied(f.path, f.latest.Files, files); err != nil {
		return invalid(err)
	}
	if v.set, err = rule.Parse(files...); err != nil {
		return invalid(err)
	}
	f.numberLocked(v)
	return nil
}

// sameLocked handles files that still hold the latest version. Another process
// may have published the same content under a newer number.
func (f *Files) sameLocked(files []rule.File) (err error) {
	if newest := f.history.newest(); newest.Number > f.latest.Number && newest.Hash == f.latest.Hash {
		newest.set = f.latest.set
		f.latest = newest
	}
	if f.latest.set == nil { // the history holds no parsed set; parse the files so that mistakes name the path
		f.latest.set, err = rule.Parse(files...)
	}
	return err
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &InvalidError{Err: err}
}

// numberLocked numbers a version that was read from the files. The version takes
// effect even if the history cannot be written.
func (f *Files) numberLocked(v Version) {
	v.Number = f.latest.Number + 1
	err := f.history.add(v)
	if errors.Is(err, errTaken) {
		newest := f.history.newest()
		if newest.Hash == v.Hash { // another process was first
			newest.set, newest.Files = v.set, v.Files
			f.latest = newest
			return
		}
		v.Number = max(v.Number, newest.Number) + 1
		err = f.history.add(v)
	}
	if err != nil {
		f.log.Warn(historyNotWritten, "error", err)
	}
	f.latest = v
}

// plainNames returns the files with names relative to their folder.
func plainNames(files []rule.File) []rule.File {
	plain := make([]rule.File, len(files))
	for i, f := range files {
		plain[i] = rule.File{Name: filepath.Base(f.Name), Data: f.Data}
	}
	return plain
}

// settleLocked writes the files of a folder whose version is already published.
// A failed write, for example on a full disk, does not undo the publish; it is
// logged and retried.
func (f *Files) settleLocked(d folder, files []rule.File) {
	if err := d.settle(files); err != nil {
		f.log.Error("rules: the published version is in force, but its files cannot be written to the folder; edits in the folder are ignored until they are", "error", err)
		f.checkLaterLocked(d)
	}
}

// checkLaterLocked schedules another read of a folder with a pending version,
// for the time when a reader may settle it. Without that read, an abandoned
// pending version could replace later edits of the files.
func (f *Files) checkLaterLocked(d folder) {
	if _, pending := d.since(); !pending || f.scheduled {
		return
	}
	f.scheduled = true
	time.AfterFunc(leftBehind+time.Second, func() {
		f.mu.Lock()
		f.scheduled = false
		f.mu.Unlock()
		f.markStale()
	})
}
