package pgtest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// patience bounds the start of a server.
const patience = 60 * time.Second

// process is a server program that listens on a loopback port.
type process struct {
	t      T
	dir    string // the folder of all files of the server
	port   int
	cmd    *exec.Cmd
	exited chan struct{}
	log    bytes.Buffer // read once it has exited
}

// newProcess returns a process that is not started yet, with a folder and a free port.
// Both stay the same when it restarts.
func newProcess(t T) process {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgtest") // the parents of a test's own folder are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := ownFolder(dir); err != nil {
		t.Skipf("needs PostgreSQL, which does not run as root: %v", err)
	}
	return process{t: t, dir: dir, port: testserver.FreePort(t, "tcp")}
}

// Processes returns the process ids of the server and its children as they run now.
func (p *process) Processes() []int {
	pid := p.cmd.Process.Pid
	return append(childrenOf(pid), pid)
}

// Addr returns the server's address.
func (p *process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// Kill ends the server and its children as a crash of the machine would. It returns when
// the process has ended.
func (p *process) Kill() {
	if p.cmd == nil {
		return
	}
	children := childrenOf(p.cmd.Process.Pid)
	_ = p.cmd.Process.Kill() // an error: it has ended already
	signal(children, killed)
	<-p.exited
}

// Freeze suspends the server and its children. The kernel still accepts connections and
// bytes, but the server does not answer until Thaw.
func (p *process) Freeze() { p.signalAll(frozen) }

// Thaw resumes a frozen server, which then handles what has arrived in the meantime.
func (p *process) Thaw() { p.signalAll(thawed) }

func (p *process) signalAll(s state) {
	p.t.Helper()
	pid := p.cmd.Process.Pid
	signal([]int{pid}, s) // first, so that a frozen server starts no more children
	signal(childrenOf(pid), s)
}

// start kills the server if it runs, runs the command, and waits until ready returns true.
func (p *process) start(cmd *exec.Cmd, ready func() bool) {
	p.t.Helper()
	p.Kill()
	p.log.Reset()
	if p.cmd == nil {
		p.t.Cleanup(p.Kill)
	}
	exited := make(chan struct{})
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &p.log, &p.log, time.Second
	p.must(cmd.Start())
	p.cmd, p.exited = cmd, exited
	go func() { _ = cmd.Wait(); close(exited) }() // the error reports the kill
	for end := time.Now().Add(patience); !ready(); {
		select {
		case <-exited:
			p.t.Fatalf("%s ended at start:\n%s", cmd.Path, p.log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s does not become ready", cmd.Path)
		}
	}
}

// command returns a command in the folder of the server, as the user that runs the server
// and with the password of the user stint.
func (p *process) command(program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(context.Background(), program, args...)
	c.Dir, c.SysProcAttr = p.dir, asOwner()
	c.Env = append(os.Environ(), "PGPASSWORD="+Password)
	return c
}

func (p *process) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}
