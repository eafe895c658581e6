// Package pgtest starts real PostgreSQL servers for tests.
//
// Use it in tests of code that connects to PostgreSQL. A test is skipped, with the
// reason, if no server is installed (scripts/install-test-servers installs one).
//
// Each test gets its own empty server on a free loopback port. The server does not sync
// its data to disk, and ends with the test. PostgreSQL refuses to run as root, so tests
// that run as root start it as another user.
package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// patience bounds the start and the end of a server.
const patience = 60 * time.Second

// Server is one server. Its methods are for the goroutine of the test.
type Server struct {
	t      testing.TB
	bin    string
	dir    string // the folder of all files of the server
	port   int
	cmd    *exec.Cmd
	exited chan struct{}
	log    bytes.Buffer // read once it has exited
}

// Password is the password of the user stint. The URL does not contain it.
const Password = "secret%:/?#@pw"

// Start starts a server that accepts connections when Start returns.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, bin: programs(t), port: freePort(t)}
	var err error
	if s.dir, err = os.MkdirTemp("", "pgtest"); err != nil { //nolint:usetesting // its parents are closed to other users
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Kill(); _ = os.RemoveAll(s.dir) })
	if err := ownFolder(s.dir); err != nil {
		t.Skipf("needs PostgreSQL, which does not run as root: %v", err)
	}
	secret := filepath.Join(s.dir, "password")
	s.must(os.WriteFile(secret, []byte(Password+"\n"), 0o644)) //nolint:gosec // of a server of this test alone
	s.run("initdb", "-D", s.data(), "-U", "stint", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--locale=C", "--no-sync")
	s.Restart()
	return s
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL returns the server's URL for the user stint, without the password.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://stint@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Addr returns the server's address.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Kill ends the server as a crash would. It returns when the process has ended.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // an error: it has ended already
		<-s.exited
	}
}

// Restart kills the server if it runs, and starts it on the same port with its data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.log.Reset()
	s.cmd, s.exited = s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=150"), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.WaitDelay = &s.log, &s.log, time.Second
	s.must(s.cmd.Start())
	go func() { _ = s.cmd.Wait(); close(s.exited) }() // the error reports the kill
	for end := time.Now().Add(patience); ; {
		if s.command("pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)).Run() == nil {
			return
		}
		select {
		case <-s.exited:
			s.t.Fatalf("postgres ended at start:\n%s", s.log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.t.Fatal("postgres does not become ready")
		}
	}
}

func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	if out, err := s.command(program, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(context.Background(), filepath.Join(s.bin, program), args...)
	c.Dir, c.SysProcAttr = s.dir, asOwner()
	return c
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// programs returns the folder of the newest installed server. Debian does not put it in
// PATH.
func programs(t testing.TB) string {
	t.Helper()
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	slices.SortFunc(folders, func(a, b string) int { return major(b) - major(a) })
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	for _, dir := range folders {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir
		}
	}
	t.Skip("needs PostgreSQL, which is not installed (run scripts/install-test-servers)")
	return ""
}

func major(folder string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder))) // a folder without a number comes last
	return n
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
