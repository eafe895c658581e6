//go:build !linux

package pgtest

import "syscall"

func ownFolder(string) error { return nil }

func asOwner() *syscall.SysProcAttr { return nil }

// state is a state of a process that a test can change on Linux alone.
type state int

const (
	frozen state = iota
	thawed
	killed
)

func signal([]int, state) {}

func childrenOf(int) []int { return nil }
