package ruleset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// writeBeside writes a hidden file in the folder of path, through to the disk,
// which takes the place of path when it is renamed to it: whoever reads path
// meets the old content or the new one, whenever this process is killed.
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

// syncFolder makes renames in a folder last. Where folders cannot be synced
// they last on their own.
func syncFolder(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // a folder of the operator's choice
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}
