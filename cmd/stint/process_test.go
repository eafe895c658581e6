package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "stint")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	binary = filepath.Join(folder, "stint")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is the exit status and the output of a command.
type result struct {
	status      int
	out, errors string
}

// command runs a command to its end.
func command(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, binary, args...)
	c.Env, c.Stdout, c.Stderr = append(cleanEnvironment(), env...), &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

func cleanEnvironment() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "STINT_") {
			env = append(env, e)
		}
	}
	return append(env, "STATE_DIRECTORY="+filepath.Join(filepath.Dir(binary), "state"))
}

// process is a running server and the lines of its log.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed when the log ended

	mu    sync.Mutex
	more  *sync.Cond // on mu: there are more lines, or the log ended
	lines []string
	done  bool
}

// startServer starts the server on free ports and waits until it is ready. The given
// flags override its own.
func startServer(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := startProcess(t, env, append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	p.wait("msg=ready")
	return p
}

func startProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return startProcessWith(t, nil, env, args...)
}

func startProcessWith(t *testing.T, stdin io.Reader, env []string, args ...string) *process {
	t.Helper()
	c := exec.Command(binary, args...)
	c.Env, c.Stdin = append(cleanEnvironment(), env...), stdin
	return startCommand(t, c)
}

func startCommand(t *testing.T, c *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: c, ended: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(pipe)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("log of the server:\n%s", strings.Join(p.lines, "\n"))
		}
	})
	return p
}

func (p *process) read(pipe io.Reader) {
	defer close(p.ended)
	for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		p.more.Broadcast()
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.more.Broadcast()
}

// wait waits for a log line that contains text, and returns the first.
func (p *process) wait(text string) string {
	p.t.Helper()
	return p.waitNth(text, 1)
}

// waitNth waits for the nth log line that contains text, and returns it.
func (p *process) waitNth(text string, n int) string {
	p.t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.more.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		found := 0
		for _, line := range p.lines {
			if strings.Contains(line, text) {
				if found++; found == n {
					return line
				}
			}
		}
		if p.done || late {
			p.t.Fatalf("the log has no line %d with %q", n, text)
		}
		p.more.Wait()
	}
}

// logged returns the log so far.
func (p *process) logged() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// addr returns the address of the listener with that name.
func (p *process) addr(name string) string {
	p.t.Helper()
	_, addr, _ := strings.Cut(p.wait("listening name="+name+" addr="), "addr=")
	return addr
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end of the process and returns its status.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.t.Fatal("the server does not end")
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// writeFile replaces a file in one step, as editors do, so that a server that watches
// the file never reads a part of it.
func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	return path
}
