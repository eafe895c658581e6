//go:build !linux

package redistest

import "syscall"

// diesWithParent is what Linux alone can do.
func diesWithParent() *syscall.SysProcAttr { return nil }
