package main

import (
	"os/exec"
	"syscall"
)

// diesWithUs makes the kernel kill the process when the thread that started it ends, so
// that no server stays behind when this program is killed.
func diesWithUs(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
