package pgtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

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
