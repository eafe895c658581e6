// Package dynamotest starts emulators of DynamoDB for tests.
//
// Use it in tests of code that counts in DynamoDB. A test is skipped, with the reason, if
// the emulator is not installed (make servers installs both).
//
// There are two, because each lacks something. moto (Python) has transactions, rights and
// time to live, and forgets its tables when it ends. dynalite (JavaScript) keeps its tables
// on disk, and has no transactions, does not return the item that made a condition fail,
// and cannot enable time to live. Neither bounds the rate of calls or deletes expired items.
package dynamotest

import (
	"bytes"
	"context"
	_ "embed"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// T is the part of [testing.TB] that this package uses. A benchmark program, which is no
// test, has one of its own.
type T interface {
	Helper()
	Cleanup(f func())
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// Server is one emulator. Its methods are for the goroutine of the test.
type Server struct {
	t       T
	dir     string // the folder of its data
	port    int
	command func() *exec.Cmd
	cmd     *exec.Cmd
	exited  chan struct{}
	killed  bool         // by Kill
	log     bytes.Buffer // read once it has exited
}

// patience bounds the start of an emulator.
const patience = 60 * time.Second

// Environment has the variables that the SDK of AWS reads: credentials that both emulators
// accept, and no others than these.
var Environment = map[string]string{
	"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "",
	"AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
}

//go:embed moto.py
var motoProgram string

// Moto starts moto. The settings are variables of its environment, as NAME=VALUE.
func Moto(t T, settings ...string) *Server {
	t.Helper()
	s := newServer(t)
	packages := filepath.Join(root(t), ".cache", "servers", "moto")
	if _, err := os.Stat(filepath.Join(packages, ".installed")); err != nil {
		t.Skip("needs moto in .cache/servers (run scripts/install-wheels)")
	}
	s.command = func() *exec.Cmd {
		c := exec.CommandContext(context.Background(), "python3", "-c", motoProgram, strconv.Itoa(s.port))
		c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") }) // moto reads them too
		c.Env = append(c.Env, "PYTHONPATH="+packages)
		c.Env = append(c.Env, settings...)
		return c
	}
	s.Restart()
	return s
}

// Dynalite starts dynalite. It would end when a client breaks off a request.
func Dynalite(t T) *Server {
	t.Helper()
	s := newServer(t)
	program := filepath.Join(root(t), "internal", "dynamotest", "testdata", "npm", "node_modules", "dynalite", "cli.js")
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs the npm package dynalite (run scripts/install-test-servers)")
	}
	s.command = func() *exec.Cmd {
		return exec.CommandContext(context.Background(), "node", "--require", filepath.Join(root(t), "internal", "dynamotest", "testdata", "goes-on.cjs"), program, "--host", "127.0.0.1", "--port", strconv.Itoa(s.port), "--path", s.dir, "--createTableMs", "10")
	}
	s.Restart()
	return s
}

func root(t T) string {
	t.Helper()
	dir, err := testserver.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newServer(t T) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "dynamotest")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: dir, port: testserver.FreePort(t, "tcp")}
	t.Cleanup(func() {
		defer os.RemoveAll(dir)
		select {
		case <-s.exited:
			if !s.killed {
				t.Fatalf("the emulator %s ended by itself: %v\n%s", s.Addr(), s.cmd.ProcessState, s.log.String())
			}
		default:
			s.Kill()
		}
	})
	return s
}

// Addr returns the host and port that the emulator listens on.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the URL of a store in a table of the emulator.
func (s *Server) URL(table string) string { return URL(table, s.Addr()) }

// URL returns the URL of a store in a table of an emulator at an address.
func URL(table, address string) string {
	return "dynamodb://" + table + "?region=eu-west-1&endpoint=http://" + address
}

// Kill ends the emulator as a crash would. It returns when the process has ended.
func (s *Server) Kill() {
	if s.cmd != nil {
		s.killed = true
		_ = s.cmd.Process.Kill() // an error: it has ended already
		<-s.exited
	}
}

// Restart kills the emulator if it runs, and starts it on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.log.Reset()
	exited := make(chan struct{})
	cmd := s.command()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay, cmd.SysProcAttr = &s.log, &s.log, time.Second, diesWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // diesWithParent means the thread: it must not end earlier
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the error reports the kill
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exited, s.killed = cmd, exited, false
	for end := time.Now().Add(patience); !s.answers(); {
		select {
		case <-exited:
			s.t.Fatalf("the emulator ended at start:\n%s", s.log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.t.Fatalf("the emulator %s does not become ready", s.Addr())
		}
	}
}

// answers reports whether the emulator answers a request.
func (s *Server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr()+"/", http.NoBody)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	return err == nil && answer.Body.Close() == nil
}

// Freeze suspends the emulator. The kernel still accepts connections and bytes, but the
// emulator does not answer until Thaw.
func (s *Server) Freeze() { s.signal(freeze) }

// Thaw resumes a frozen emulator, which then handles what has arrived in the meantime.
func (s *Server) Thaw() { s.signal(thaw) }

func (s *Server) signal(send func(pid int) error) {
	s.t.Helper()
	if err := send(s.cmd.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
}
