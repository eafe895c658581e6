package pgtest

import (
	"bytes"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// state is a signal that changes the state of a process.
type state = syscall.Signal

const (
	frozen = syscall.SIGSTOP
	thawed = syscall.SIGCONT
	killed = syscall.SIGKILL
)

func signal(pids []int, s state) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // an error: it has ended
	}
}

// childrenOf returns the children of a process. Each process of PostgreSQL is its own
// session, so a signal to a group would miss them.
func childrenOf(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, file := range files {
		text, _ := os.ReadFile(file) //nolint:gosec // of the kernel: PID (NAME) STATE PARENT …; empty if it has ended
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nobody is the user id that servers run as if the tests run as root and there is no user
// postgres or nobody.
const nobody = 65534

// ownFolder gives a folder to the user that runs the server.
func ownFolder(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid := owner()
	return os.Chown(dir, uid, gid)
}

// asOwner makes a process run as the user that runs the server.
func asOwner() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		uid, gid := owner()
		a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return a
}

func owner() (uid, gid int) {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, err1 := strconv.Atoi(u.Uid)
			gid, err2 := strconv.Atoi(u.Gid)
			if err1 == nil && err2 == nil {
				return uid, gid
			}
		}
	}
	return nobody, nobody
}
