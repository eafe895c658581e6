package ruleset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stintdev/stint/rule"
)

// folder is a folder of rule files. Several files cannot be renamed at once,
// so that a version is first written whole to the hidden file pendingName. From
// then on that is what the folder holds, to every reader in this package, until
// its files are in place and it is removed: by this process, or after a crash
// or on a disk that was full by whoever reads it later.
type folder string

const pendingName = ".stint-publishing.json"

func (d folder) pending() string { return filepath.Join(string(d), pendingName) }

// write makes the files those of the folder, and leaves it to settle to put them
// in place.
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

// since is for how long there has been a pending version.
func (d folder) since() (age time.Duration, pending bool) {
	info, err := os.Stat(d.pending())
	if err != nil {
		return 0, false
	}
	return time.Since(info.ModTime()), true
}

// settle puts the files of the pending version in place.
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

// readPending is the version that a folder is about to hold; nil when there is
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
		return nil, rule.Problems{{File: d.pending(), What: err.Error(), Mend: "remove it: the files beside it are whole, but may be of two versions"}}
	}
	v, err := Decode(data)
	return v.Files, err
}

// finish settles what a process left behind that was killed. One that runs has
// settled long before.
func (d folder) finish(files []rule.File) {
	if age, _ := d.since(); age > leftBehind {
		_ = d.settle(files) // who may only read finds the same content
	}
}

// leftBehind is how old a pending version is that nobody is about to settle.
const leftBehind = 10 * time.Second

// readFiles reads a file, or a folder as it is or is about to be.
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
