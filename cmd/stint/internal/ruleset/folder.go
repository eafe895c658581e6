package ruleset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stintdev/stint/rule"
)

// folder is a folder of rule files.
//
// Several files cannot be renamed in one step. A version is therefore first
// written whole to one hidden file, pendingName. From then on every reader in
// this package treats that version as the content of the folder. Then the
// individual files are written and the hidden file is removed. If this process
// crashes or the disk is full, a later reader finishes the work.
type folder string

const pendingName = ".stint-publishing.json"

func (d folder) pending() string { return filepath.Join(string(d), pendingName) }

// write writes the pending version. settle then writes the individual files.
func (d folder) write(files []rule.File) error {
	data, err := Encode(Version{Hash: HashOf(files), Files: files})
	if err == nil {
		err = replace(d.pending(), seal(data))
	}
	if err == nil {
		err = syncFolder(string(d))
	}
	return err
}

// since returns the age of the pending version, if there is one.
func (d folder) since() (age time.Duration, pending bool) {
	info, err := os.Stat(d.pending())
	if err != nil {
		return 0, false
	}
	return time.Since(info.ModTime()), true
}

// settle writes the files of the pending version, removes other rule files, and
// removes the pending version.
func (d folder) settle(files []rule.File) error {
	keep := make(map[string]bool)
	for _, f := range files {
		keep[f.Name] = true
		path := filepath.Join(string(d), f.Name)
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		if err := replace(path, f.Data); err != nil {
			return err
		}
	}
	old, err := rule.ReadFiles(string(d))
	if err != nil {
		return err
	}
	for _, f := range old {
		if !keep[filepath.Base(f.Name)] {
			if err := os.Remove(f.Name); err != nil {
				return err
			}
		}
	}
	if err := syncFolder(string(d)); err != nil {
		return err
	}
	if err := os.Remove(d.pending()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readPending returns the files of the pending version, or nil when there is
// none.
func (d folder) readPending() ([]rule.File, error) {
	data, err := os.ReadFile(d.pending())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		data, err = unseal(data)
	}
	if err != nil {
		return nil, rule.Problems{{File: d.pending(), What: err.Error(), Mend: "remove it: each file beside it is whole, but they may belong to two versions"}}
	}
	v, err := Decode(data)
	return v.Files, err
}

// finish settles a pending version whose process was killed. A running process
// settles long before leftBehind.
func (d folder) finish(files []rule.File) {
	if age, _ := d.since(); age > leftBehind {
		_ = d.settle(files) // a reader without write access still sees the same content
	}
}

// leftBehind is the age at which a pending version counts as abandoned.
const leftBehind = 10 * time.Second

// readFiles reads a file, or the content of a folder including its pending
// version.
func readFiles(path string) ([]rule.File, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return rule.ReadFiles(path)
	}
	files, err := folder(path).readPending()
	switch {
	case err != nil:
		return nil, err
	case files == nil:
		return rule.ReadFiles(path)
	}
	folder(path).finish(files)
	for i := range files {
		files[i].Name = filepath.Join(path, files[i].Name)
	}
	return files, nil
}
