package ruleset

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/stintdev/stint/internal/filewatch"
	"github.com/stintdev/stint/rule"
)

// Files is a [Source] in a rule file, or a folder of them, that people and
// programs edit as well. Each content without mistakes that is met there is a
// version. Make it by [NewFiles].
type Files struct {
	path     string
	history  history
	follower *filewatch.Follower
	log      *slog.Logger

	mu      sync.Mutex
	onwards func() // of Watch
	stale   bool   // the files may have changed
	later   bool   // they are read again soon, for the sake of a pending version
	latest  Version
	refused error // why what is in the files now is no version; nil: it is the latest
}

// history is what remembers versions.
type history interface {
	list(n int) []Version
	newest() Version
	get(number uint64) (Version, error)
	add(v Version) error
	remove(number uint64)
}

// NewFiles returns the source in a file or folder. The history is kept in the
// folder dir, which others may share; empty: in memory, numbered from 1.
func NewFiles(path, dir string, log *slog.Logger) *Files {
	f := &Files{path: path, history: &Memory{}, stale: true, log: log}
	if dir != "" {
		f.history = &archive{dir, wholeOnDisk, listedAtAll}
	}
	f.latest = f.history.newest()
	f.follower = filewatch.New(path, func(bool) { f.disturbed() }, func(err error) { f.log.Error("rules: " + err.Error()) })
	return f
}

// String is the path.
func (f *Files) String() string { return f.path }

// Watch follows the files.
func (f *Files) Watch(ctx context.Context, changed func()) {
	f.mu.Lock()
	f.onwards = changed
	f.mu.Unlock()
	f.follower.Run(ctx)
}

// Refresh has the files read again though nothing announced a change.
func (f *Files) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
}

func (f *Files) disturbed() {
	f.mu.Lock()
	f.stale = true
	onwards := f.onwards
	f.mu.Unlock()
	if onwards != nil {
		onwards()
	}
}

// History lists the newest versions, after a look at the files if they may have
// changed.
func (f *Files) History(_ context.Context, n int) ([]Version, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale {
		f.refused = f.readLocked()
		f.stale = false
	}
	switch {
	case n > 1:
		return f.listLocked(n), nil
	case f.refused != nil:
		return nil, f.refused
	}
	return []Version{f.latest.listed()}, nil
}

// listLocked is the history, with the latest version also where that could not
// be written.
func (f *Files) listLocked(n int) []Version {
	all := f.history.list(n)
	if f.latest.Number > 0 && (len(all) == 0 || all[0].Number < f.latest.Number) {
		all = append([]Version{f.latest.listed()}, all[:min(len(all), n-1)]...)
	}
	return all
}

// Get returns a version whole.
func (f *Files) Get(_ context.Context, number uint64) (Version, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number == f.latest.Number && number > 0 {
		return f.latest, nil
	}
	return f.history.get(number)
}

// readLocked makes what is in the files the latest version, unless it is.
func (f *Files) readLocked() error {
	files, err := readFiles(f.path)
	if err != nil {
		return err
	}
	f.lookLaterLocked(folder(f.path))
	plain := plainNames(files)
	v := Version{Time: time.Now().UTC(), Comment: "met in " + f.path, Hash: HashOf(plain), Files: plain}
	if f.latest.Hash == v.Hash {
		return invalid(f.sameLocked(files))
	}
	if err := f.lostLocked(files); err != nil {
		return invalid(err)
	}
	if v.set, err = rule.Parse(files...); err != nil {
		return invalid(err)
	}
	f.noteLocked(v)
	return nil
}

// sameLocked is for files that hold the latest version, which another process
// may have published once more.
func (f *Files) sameLocked(files []rule.File) (err error) {
	if newest := f.history.newest(); newest.Number > f.latest.Number && newest.Hash == f.latest.Hash {
		newest.set = f.latest.set
		f.latest = newest
	}
	if f.latest.set == nil { // as the history has it: mistakes are named by path
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

// noteLocked numbers a version that was met in the files. That a history cannot
// be written keeps no rules from being served.
func (f *Files) noteLocked(v Version) {
	v.Number = f.latest.Number + 1
	err := f.history.add(v)
	if errors.Is(err, errTaken) {
		newest := f.history.newest()
		if newest.Hash == v.Hash { // another process has met it first
			newest.set, newest.Files = v.set, v.Files
			f.latest = newest
			return
		}
		v.Number = max(v.Number, newest.Number) + 1
		err = f.history.add(v)
	}
	if err != nil {
		f.log.Warn("rules: their history cannot be written (give --state-dir a folder to write to)", "error", err)
	}
	f.latest = v
}

// lostLocked refuses rules that are gone without anyone having said so.
func (f *Files) lostLocked(files []rule.File) error {
	filled := make(map[string]bool)
	for _, old := range f.latest.Files {
		if !blank(old) {
			filled[old.Name] = true
		}
	}
	if len(files) == 0 && len(filled) > 0 {
		return rule.Problems{{File: f.path, What: "holds no rule file any more", Mend: "to have no rules, leave one that says rules: []"}}
	}
	for _, now := range files {
		if blank(now) && filled[filepath.Base(now.Name)] {
			return rule.Problems{{File: now.Name, What: "has become empty", Mend: "to have no rules, write rules: []"}}
		}
	}
	return nil
}

func blank(f rule.File) bool { return len(bytes.TrimSpace(f.Data)) == 0 }

// plainNames is the files without their folder.
func plainNames(files []rule.File) []rule.File {
	plain := make([]rule.File, len(files))
	for i, f := range files {
		plain[i] = rule.File{Name: filepath.Base(f.Name), Data: f.Data}
	}
	return plain
}
