//go:build linux

// Package processtest runs programs for tests: servers that listen at an address and end
// with the test.
//
// It needs Linux, where a program ends also when the test binary is killed.
package processtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds the start of a program. It is long, because the machine may be busy
// with other tests.
const Patience = 30 * time.Second

// Process is a program that a test started. It ends with the test.
type Process struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}
	log    *record
}

// record is the output of a process.
type record struct {
	mu   sync.Mutex
	text []byte
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = append(r.text, p...)
	return len(p), nil
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.text[max(0, len(r.text)-8<<10):])
}

// Start runs a program and waits until it accepts connections at addr.
func Start(t *testing.T, addr, program string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, exited: make(chan struct{}), log: &record{}}
	p.cmd = exec.CommandContext(context.Background(), program, args...)
	p.cmd.Env, p.cmd.SysProcAttr = environment(), &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.WaitDelay = time.Second
	if err := p.run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	p.awaitPort(addr)
	return p
}

func environment() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "STINT_") {
			env = append(env, e)
		}
	}
	return env
}

// run starts the program from a thread that lives as long as the program. The kernel
// kills the program together with that thread, also if the test binary ends without a
// cleanup.
func (p *Process) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
		close(p.exited)
	}()
	return <-started
}

func (p *Process) awaitPort(addr string) {
	p.t.Helper()
	dialer := net.Dialer{Timeout: time.Second}
	for end := time.Now().Add(Patience); time.Now().Before(end); {
		if conn, err := dialer.DialContext(p.t.Context(), "tcp", addr); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-p.exited:
			p.t.Fatalf("%s ended at start:\n%s", p.cmd, p.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.t.Fatalf("%s does not listen at %s:\n%s", p.cmd, addr, p.log)
}

// Kill ends the process and its children as a crash does.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error: the process has already ended
	<-p.exited
}

// Freeze stops the process. The kernel still accepts connections, but nothing answers
// them until Thaw. Freeze waits until the signal has stopped every thread.
func (p *Process) Freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for end := time.Now().Add(Patience); !p.stopped(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("it does not stop")
		}
	}
}

// Thaw resumes a frozen process.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

// stopped reports whether every thread has stopped.
func (p *Process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)               //nolint:gosec // a file of the kernel
		_, state, _ := strings.Cut(string(text), ") ") // the state follows the name, which is in parentheses
		if err != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Signal sends a signal to the process, without its children.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

func (p *Process) end() {
	p.Kill()
	if p.t.Failed() {
		p.t.Logf("log of %s:\n%s", filepath.Base(p.cmd.Path), p.log)
	}
}
