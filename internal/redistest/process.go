package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Process is one server. Call its methods from the test's goroutine only, except Addr,
// Port and Do, which are safe for concurrent use.
type Process struct {
	t       testing.TB
	binary  string
	options []string // beside port, address and folder
	env     []string // beside the environment of the test
	dir     string
	port    int
	tls     *tls.Config // nil: the port speaks plain
	cmd     *exec.Cmd
	log     *serverLog
	exited  chan struct{}
	frozen  bool
}

func newProcess(t testing.TB, binary string) *Process {
	t.Helper()
	p := &Process{t: t, binary: binary, dir: t.TempDir()}
	t.Cleanup(p.end)
	return p
}

// Addr returns the host and port that the server listens on. They stay the
// same when it restarts.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// Port returns the port that the server listens on.
func (p *Process) Port() int { return p.port }

// Pid returns the process id of the server as it runs now.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Dir returns the server's working folder.
func (p *Process) Dir() string { return p.dir }

// Log returns the end of what the server wrote to its log since it started.
func (p *Process) Log() string { return p.log.tail() }

// Kill ends the server like a crash (SIGKILL): its connections are reset and nothing
// is saved. Kill returns when the process has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error: it has ended already
	<-p.exited
}

// Restart kills the server if it still runs and starts it again on the same port. The
// server is then empty; a member of a Cluster keeps its role.
func (p *Process) Restart() {
	p.t.Helper()
	p.Kill()
	if err := p.start(); err != nil {
		p.t.Fatal(err)
	}
}

// RestartWithClock is Restart, but the server's wall clock is ahead of the machine's from
// then on. The test is skipped if libfaketime is not installed.
func (p *Process) RestartWithClock(ahead time.Duration) {
	p.t.Helper()
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		p.t.Skip("needs libfaketime (run scripts/install-test-servers)")
	}
	p.env = []string{
		// The allocator of Redis reads the clock before libfaketime is ready, which then
		// fails. With the allocator of libc in front, Redis does not use its own.
		"LD_PRELOAD=" + found[0] + ":libc.so.6",
		fmt.Sprintf("FAKETIME=%+.3fs", ahead.Seconds()),
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
	p.Restart()
}

// Freeze suspends the server (SIGSTOP). The kernel still accepts connections and
// bytes, but the server does not answer until Thaw.
func (p *Process) Freeze() {
	p.t.Helper()
	p.frozen = true
	p.signal(freeze)
}

// Thaw resumes a frozen server, which then handles what has arrived in the meantime.
func (p *Process) Thaw() {
	p.t.Helper()
	p.signal(thaw)
	p.frozen = false
}

func (p *Process) signal(send func(pid int) error) {
	p.t.Helper()
	if err := send(p.Pid()); err != nil {
		p.t.Fatalf("signal to server %s: %v", p.Addr(), err)
	}
}

// launch starts the server on a port that is free. Another process can take
// the port in between: then it tries the next.
func (p *Process) launch() {
	p.t.Helper()
	for range 20 {
		p.port = freePort(p.t)
		err := p.start()
		if err == nil {
			return
		}
		if p.tls != nil && lacksTLS(p.Log()) {
			p.t.Skipf("needs a server with TLS, and %s was built without", p.binary)
		}
		if !errors.Is(err, errPortTaken) {
			p.t.Fatal(err)
		}
	}
	p.t.Fatal("no free port for a server in 20 attempts")
}

// lacksTLS reports whether a server says at its start that it was built without
// TLS: Valkey names it, and Redis does not know the first option that needs it.
func lacksTLS(log string) bool {
	return strings.Contains(log, "Failed finding TLS support") || strings.Contains(log, ">>> 'tls-")
}

var errPortTaken = errors.New("the port is taken")

// start runs the program and waits until it accepts connections.
func (p *Process) start() error {
	args := append([]string{}, p.options...)
	args = append(args, p.portOption(), strconv.Itoa(p.port), "--bind", "127.0.0.1", "--dir", p.dir, "--daemonize", "no", "--loglevel", "notice")
	p.frozen = false
	p.log, p.exited = &serverLog{ready: make(chan struct{})}, make(chan struct{})
	p.cmd = exec.CommandContext(context.Background(), p.binary, args...)
	p.cmd.SysProcAttr = diesWithParent()
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.WaitDelay = time.Second // a fork of the server that outlives it holds the log open
	if err := p.run(); err != nil {
		return fmt.Errorf("start %s: %w", p.binary, err)
	}
	select {
	case <-p.log.ready:
		return nil
	case <-p.exited:
		if strings.Contains(p.Log(), "ddress already in use") {
			return errPortTaken
		}
		return fmt.Errorf("%s ended at start:\n%s", p.binary, p.Log())
	case <-time.After(patience):
		return fmt.Errorf("%s was not ready after %v:\n%s", p.binary, patience, p.Log())
	}
}

func (p *Process) portOption() string {
	if p.tls != nil {
		return "--tls-port"
	}
	return "--port"
}

// run starts the program from a thread that lives as long as the program. For the
// kernel, the parent whose death ends the server is that thread, not the process.
func (p *Process) run() error {
	cmd, exited, started := p.cmd, p.exited, make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the processes end by being killed
		}
		close(exited)
	}()
	return <-started
}

// end is the test's cleanup.
func (p *Process) end() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	p.Kill()
	if p.t.Failed() {
		p.t.Logf("log of server %s:\n%s", p.Addr(), p.Log())
	}
}

// serverLog keeps the end of what a server writes, and notes when it says
// that it accepts connections.
type serverLog struct {
	ready chan struct{}
	mu    struct {
		sync.Mutex
		text string
		said bool
	}
}

// logKept is how many bytes of a server's log are kept.
const logKept = 2 << 10

func (l *serverLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.text += string(line)
	if !l.mu.said && (strings.Contains(l.mu.text, "Ready to accept connections") || strings.Contains(l.mu.text, "Sentinel ID is")) {
		l.mu.said = true
		close(l.ready)
	}
	l.mu.text = l.mu.text[max(0, len(l.mu.text)-logKept):]
	return len(line), nil
}

func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text
}

// answers reports whether the process neither has ended nor is frozen.
func (p *Process) answers() bool {
	select {
	case <-p.exited:
		return false
	default:
		return !p.frozen
	}
}
