// Package program runs the program of a package as a process of its own, for the
// package's test.
//
// The test binary contains the program: Main runs it in a process that Start made,
// and the tests in all others. So nothing is compiled twice.
package program

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// timeout bounds every wait.
const timeout = 30 * time.Second

const variable = "STINT_EXAMPLE_RUNS"

// Main runs the program or the package's tests. Call it in TestMain.
func Main(m *testing.M, program func()) {
	if os.Getenv(variable) != "" {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Process is a program that runs.
type Process struct {
	cmd    *exec.Cmd
	output output
	ended  chan struct{}
	err    error // of the process, once it has ended
}

// Start runs the program with these environment variables, such as ADDR=…, until the
// test ends.
func Start(t *testing.T, environment ...string) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	p := &Process{cmd: exec.CommandContext(ctx, os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), append(environment, variable+"=1")...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		if t.Failed() {
			t.Logf("the program wrote:\n%s", p.Output())
		}
	})
	return p
}

// Output returns what the program has written so far.
func (p *Process) Output() string { return p.output.String() }

// AwaitOutput waits until the program has written the text this many times.
func (p *Process) AwaitOutput(t *testing.T, text string, times int) {
	t.Helper()
	for strings.Count(p.Output(), text) < times {
		select {
		case <-p.ended:
			t.Fatalf("the program ended: %v", p.err)
		case <-time.After(time.Millisecond):
		}
	}
}

// Run runs the program to its end and returns what it wrote. The test fails if the
// program does.
func Run(t *testing.T, environment ...string) string {
	t.Helper()
	p := Start(t, environment...)
	<-p.ended
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.Output()
}

// Serve starts a program that serves HTTP at the address in ADDR, and returns its URL
// once it listens.
func Serve(t *testing.T, environment ...string) (url string) {
	t.Helper()
	addr := testserver.FreeAddr(t)
	p := Start(t, append(environment, "ADDR="+addr)...)
	for {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
			return "http://" + addr
		}
		select {
		case <-p.ended:
			t.Fatalf("the program ended: %v", p.err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Get sends a GET request with these header fields, each a name and a value, and drops
// the body of the answer.
func Get(t *testing.T, url string, fields ...string) (status int, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode, response.Header
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// ExpectHello sends a request that must be answered with 200.
func ExpectHello(t *testing.T, url string) http.Header {
	t.Helper()
	status, header := Get(t, url)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d", url, status)
	}
	return header
}

// ExpectLimit expects that the given number of requests is allowed, and that the next one is
// denied with the headers and the body of a denial.
func ExpectLimit(t *testing.T, url string, allowed int) {
	t.Helper()
	for i := range allowed {
		left := ExpectHello(t, url).Get("X-RateLimit-Remaining")
		if left != strconv.Itoa(allowed-i-1) {
			t.Errorf("request %d: X-RateLimit-Remaining is %q", i+1, left)
		}
	}
	status, header := Get(t, url)
	if status != http.StatusTooManyRequests {
		t.Fatalf("the request beyond the limit got status %d", status)
	}
	for _, field := range []string{"Retry-After", "RateLimit-Policy", "Content-Type"} {
		if header.Get(field) == "" {
			t.Errorf("the denial has no %s: %v", field, header)
		}
	}
}
