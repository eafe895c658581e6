//go:build !linux

package redistest

import "syscall"

// diesWithParent does nothing: only Linux can kill a process when its parent dies.
func diesWithParent() *syscall.SysProcAttr { return nil }
