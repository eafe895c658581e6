package ruleset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// writeBeside writes a hidden file in the folder of path and syncs it to disk.
// The caller renames it to path. A reader of path then sees either the old or
// the new content, whenever this process is killed.
func writeBeside(path string, data []byte, mode fs.FileMode) (temp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".stint-*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// syncFolder makes renames in a folder durable. The error of a sync is ignored,
// because some file systems cannot sync folders.
func syncFolder(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // a folder of the operator's choice
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}
