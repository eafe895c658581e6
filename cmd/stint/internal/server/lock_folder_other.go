//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package server

import "os"

// folderLocks says that lockFolder does nothing: an open folder could not be removed, or
// the system has no such locks.
const folderLocks = false

func lockFolder(string, bool) (*os.File, error) { return nil, nil } //nolint:nilnil // there is no lock
