package redistest

import "syscall"

// diesWithParent has the kernel kill a server when the test binary ends in a
// way that runs no cleanup: a panic, a time-out, a kill.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
