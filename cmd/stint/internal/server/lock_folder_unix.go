//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package server

import (
	"os"
	"syscall"
)

// folderLocks says that lockFolder locks.
const folderLocks = true

// lockFolder locks a folder until the returned file is closed, or the process ends. A lock
// is for many servers that use the folder, or, if alone is set, for the one that removes
// it; that one does not wait for the others, and gets an error.
func lockFolder(path string, alone bool) (*os.File, error) {
	f, err := os.Open(path) //nolint:gosec // a folder in the state folder
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
