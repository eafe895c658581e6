//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the server into a process group of its own, so that Ctrl-C does not
// reach it. It gets a SIGTERM from the demo, and a second signal would end it
// before it has drained.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
