// Package pgtest starts real PostgreSQL servers for tests.
//
// Use it in tests of code that connects to PostgreSQL. A test is skipped, with the
// reason, if no server is installed (scripts/install-test-servers installs one).
//
// Each test gets its own empty server on a free loopback port. The server does not sync
// its data to disk, and ends with the test. PostgreSQL refuses to run as root, so tests
// that run as root start it as another user. A test can also start a standby of a server,
// and PgBouncer in front of one.
package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// T is the part of [testing.TB] that this package uses. A benchmark program, which is no
// test, has one of its own.
type T interface {
	Helper()
	Cleanup(f func())
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Skipf(format string, args ...any)
}

// Server is one server. Its methods are for the goroutine of the test.
type Server struct {
	process

	bin      string
	settings []string // of the configuration, as NAME=VALUE
}

// Password is the password of the user stint. The URL does not contain it.
const Password = "secret%:/?#@pw"

// Start starts a server that accepts connections when Start returns. The settings are
// those of its configuration file, such as "max_connections=20".
func Start(t T, settings ...string) *Server {
	t.Helper()
	s := newServer(t, settings)
	secret := filepath.Join(s.dir, "password")
	s.must(os.WriteFile(secret, []byte(Password+"\n"), 0o644)) //nolint:gosec // of a server of this test alone
	s.run("initdb", "-D", s.data(), "-U", "stint", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--locale=C", "--no-sync")
	s.Restart()
	return s
}

// Standby starts a standby server, which replicates the server and accepts no writes.
func (s *Server) Standby() *Server {
	s.t.Helper()
	standby := newServer(s.t, s.settings)
	standby.run("pg_basebackup", "-d", s.URL(), "-D", standby.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	standby.Restart()
	return standby
}

// Promote makes a standby a server that accepts writes.
func (s *Server) Promote() {
	s.t.Helper()
	s.run("pg_ctl", "promote", "-w", "-D", s.data())
}

func newServer(t T, settings []string) *Server {
	t.Helper()
	return &Server{process: newProcess(t), bin: programs(t), settings: settings}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL returns the server's URL for the user stint, without the password.
func (s *Server) URL() string { return urlOf(s.port) }

// Restart kills the server if it runs, and starts it on the same port with its data.
func (s *Server) Restart() {
	s.t.Helper()
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=150"}, s.settings...) {
		args = append(args, "-c", setting)
	}
	s.start(s.command("postgres", args...), func() bool { return s.ready("3") })
}

// ready reports whether the server accepts connections within some seconds.
func (s *Server) ready(seconds string) bool {
	return s.command("pg_isready", "-q", "-t", seconds, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)).Run() == nil
}

// Must runs statements as the user stint, and returns the values of their rows, one row a
// line.
func (s *Server) Must(statements string) string {
	s.t.Helper()
	return strings.TrimSpace(s.run("psql", "-d", s.URL(), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statements))
}

func (s *Server) run(program string, args ...string) string {
	s.t.Helper()
	out, err := s.command(program, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	return s.process.command(filepath.Join(s.bin, program), args...)
}

// programs returns the folder of the newest installed server. Debian does not put it in
// PATH.
func programs(t T) string {
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
