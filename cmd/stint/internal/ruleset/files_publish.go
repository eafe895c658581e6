package ruleset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stintdev/stint/rule"
)

// Publish writes a version to the file or folder, all or nothing. A file is
// replaced by a rename that follows links and keeps the mode. In a folder, the
// files of the version replace all rule files.
func (f *Files) Publish(_ context.Context, after uint64, v Version) (Version, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.readLocked(); err != nil {
		f.log.Warn("rules: the files are not a valid version; the published version replaces them", "error", err)
	}
	if f.latest.Number != after {
		return Version{}, &ConflictError{f.latest.listed()}
	}
	path, isFolder, err := f.writable(&v)
	if err != nil {
		return Version{}, err
	}
	if err := f.history.add(v); errors.Is(err, errTaken) {
		return Version{}, &ConflictError{f.history.newest().listed()}
	} else if err != nil {
		f.log.Warn(historyNotWritten, "error", err)
	}
	if isFolder {
		err = folder(path).write(v.Files)
	} else if err = replace(path, v.Files[0].Data); err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		f.history.remove(v.Number)
		return Version{}, readOnly(f.path, err)
	}
	f.latest, f.rejected = v, nil
	if isFolder {
		f.settleLocked(folder(path), v.Files)
	}
	return v, nil
}

// writable returns the path to write the version to. For a single file it renames
// the version's file to match.
func (f *Files) writable(v *Version) (path string, isFolder bool, err error) {
	path, err = filepath.EvalSymlinks(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		path, err = f.path, nil // the file is created
	}
	if err == nil && mounted(path) {
		err = errors.New("it is a mounted ConfigMap or Secret")
	}
	if err != nil {
		return "", false, readOnly(f.path, err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path, true, nil
	}
	if len(v.Files) != 1 {
		return "", false, fmt.Errorf("%w: %s is one file, and the version has %d (publish one file, or serve a folder)", ErrReadOnly, f.path, len(v.Files))
	}
	if name := filepath.Base(f.path); v.Files[0].Name != name {
		v.Files = []rule.File{{Name: name, Data: v.Files[0].Data}}
		v.Hash, v.set = HashOf(v.Files), nil
	}
	return path, false, nil
}

// mounted reports, by folder names, whether the kubelet manages the files. It
// would undo every change.
func mounted(path string) bool {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		_, err := os.Lstat(filepath.Join(path, "..data"))
		return err == nil
	}
	return strings.HasPrefix(filepath.Base(filepath.Dir(path)), "..")
}

func readOnly(path string, err error) error {
	return fmt.Errorf("%w: %s cannot be written: %w (change the rules at their origin)", ErrReadOnly, path, err)
}

// replace writes a file atomically with the mode of the file that it replaces.
func replace(path string, data []byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return replaceFile(path, data, mode)
}
