package dynamotest

import "syscall"

// diesWithParent has the kernel kill an emulator when the test binary ends in a way that
// runs no cleanup: a panic, a time-out, a kill.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

func thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
