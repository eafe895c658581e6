//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package decisionlog

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock reserves an open file for this process until the file is closed. It returns an error
// if another process has it, and none where the file system has no locks.
func lock(file *os.File) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s: %w", file.Name(), errShared)
	}
	return nil
}
