//go:build linux

package proxytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds the start of a program. It is long, because the machine may be busy
// with other tests.
const patience = 30 * time.Second

// process is a program that a test started. It ends with the test.
type process struct {
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

// start runs a program and waits until it accepts connections at addr.
func start(t *testing.T, addr, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, exited: make(chan struct{}), log: &record{}}
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
func (p *process) run() error {
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

func (p *process) awaitPort(addr string) {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
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

// kill ends the process and its children as a crash does.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error: the process has already ended
	<-p.exited
}

// freeze stops the process. The kernel still accepts connections, but nothing answers
// them until thaw. freeze waits until the signal has stopped every thread.
func (p *process) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for end := time.Now().Add(patience); !p.stopped(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("it does not stop")
		}
	}
}

func (p *process) thaw() { p.signal(syscall.SIGCONT) }

// stopped reports whether every thread has stopped.
func (p *process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		_, state, _ := strings.Cut(string(text), ") ") // the state follows the name, which is in parentheses
		if err != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) end() {
	p.kill()
	if p.t.Failed() {
		p.t.Logf("log of %s:\n%s", filepath.Base(p.cmd.Path), p.log)
	}
}

// Ports below those that the kernel assigns to clients, so that the port of a server
// stays free while the server restarts.
const (
	firstPort = 22_000
	manyPorts = 10_000
)

// nextPort starts at a random port, because other tests and processes run at the same
// time.
var nextPort = func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(manyPorts))
	return &n
}()

// freeAddr returns an address that no process and no other test uses.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+int(nextPort.Add(1)%manyPorts)))
		var c net.ListenConfig
		if l, err := c.Listen(t.Context(), "tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// folder returns a new folder that every user may read, because proxies give up root.
func folder(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "proxytest") //nolint:usetesting // a folder of t.TempDir is closed to them
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func port(addr string) string {
	_, p, _ := strings.Cut(addr, ":")
	return p
}
