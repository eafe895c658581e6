// Package memcachedtest starts real Memcached servers for tests.
//
// Use it in tests of code that connects to Memcached. A test is skipped, with the reason, if
// no server is installed (scripts/install-test-servers installs one). Each server is empty,
// listens on a free loopback port, and ends with the test.
package memcachedtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// T is the part of [testing.TB] that this package uses. A benchmark program, which is no
// test, has one too.
type T interface {
	Helper()
	Cleanup(f func())
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// Server is one server. Its methods are for the goroutine of the test.
type Server struct {
	t       T
	binary  string
	options []string
	port    int
	cmd     *exec.Cmd
	exited  chan struct{}
	log     *bytes.Buffer // read once it has exited
}

// patience bounds the start of a server, and the answer to a command.
const patience = 20 * time.Second

// Start starts a server that accepts connections when Start returns. The options are those
// of its command line, such as "-m", "1".
func Start(t T, options ...string) *Server {
	t.Helper()
	binary, err := exec.LookPath("memcached")
	if err != nil {
		t.Skip("needs Memcached, which is not installed (run scripts/install-test-servers)")
	}
	s := &Server{t: t, binary: binary, options: options, port: testserver.FreePort(t, "tcp")}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Kill()
		}
	})
	s.Restart()
	return s
}

// Addr returns the server's address, which stays the same when it restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Kill ends the server like a crash. It returns when the process has ended.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // an error: it has ended already
	<-s.exited
}

// Freeze suspends the server. The kernel still accepts connections and bytes, but the server
// does not answer until Thaw.
func (s *Server) Freeze() {
	s.t.Helper()
	s.signal("-STOP")
	for end := time.Now().Add(patience); !s.stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("memcached does not stop")
		}
	}
}

// stopped reports whether all threads of the server have stopped, where the system tells.
func (s *Server) stopped() bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid)) // the pattern is well formed
	for _, file := range files {
		text, _ := os.ReadFile(file) //nolint:gosec // of the kernel: PID (NAME) STATE …; empty if the thread has ended
		if state := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]); len(state) > 0 && string(state[0]) != "T" {
			return false
		}
	}
	return true
}

// Thaw resumes a frozen server, which then handles what has arrived in the meantime.
func (s *Server) Thaw() { s.signal("-CONT") }

func (s *Server) signal(name string) {
	s.t.Helper()
	if err := exec.CommandContext(context.Background(), "kill", name, strconv.Itoa(s.cmd.Process.Pid)).Run(); err != nil {
		s.t.Fatal(err)
	}
}

// Restart kills the server if it runs, and starts it on the same port, empty.
func (s *Server) Restart() {
	s.t.Helper()
	if s.cmd != nil {
		s.Kill()
	}
	args := append([]string{"-l", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "0"}, s.options...)
	if os.Getuid() == 0 {
		args = append(args, "-u", "nobody") // it refuses to run as root
	}
	cmd, exited, log := exec.CommandContext(context.Background(), s.binary, args...), make(chan struct{}), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, log, time.Second
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exited, s.log = cmd, exited, log
	go func() { _ = cmd.Wait(); close(exited) }() // the error reports the kill
	s.awaitReady()
}

func (s *Server) awaitReady() {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		if c, err := s.dial(); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-s.exited:
			s.t.Fatalf("memcached ended at start:\n%s", s.log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.t.Fatal("memcached does not become ready")
		}
	}
}

func (s *Server) dial() (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	return d.DialContext(context.Background(), "tcp", s.Addr())
}

// Do sends a command of one line, or of a line and a value, and returns the lines of its
// answer. An answer of several lines ends with END.
func (s *Server) Do(command string) []string {
	s.t.Helper()
	c, err := s.dial()
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience)) // an error shows in the reads
	if _, err := io.WriteString(c, command+"\r\n"); err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%q: %v after %q", command, err, lines)
		}
		line = strings.TrimRight(line, "\r\n")
		if lines = append(lines, line); !strings.HasPrefix(line, "VALUE ") && !strings.HasPrefix(line, "STAT ") && (len(lines) == 1 || line == "END") {
			return lines
		}
	}
}

// Stat returns one of the server's statistics.
func (s *Server) Stat(name string) string {
	s.t.Helper()
	for _, line := range s.Do("stats") {
		if value, found := strings.CutPrefix(line, fmt.Sprintf("STAT %s ", name)); found {
			return value
		}
	}
	s.t.Fatalf("the server has no statistic %s", name)
	return ""
}
