//go:build !linux

package pgtest

import "syscall"

func ownFolder(string) error { return nil }

func asOwner() *syscall.SysProcAttr { return nil }
