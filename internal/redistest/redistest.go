// Package redistest starts real Redis or Valkey servers for tests: a single
// one, a Cluster, a master under Sentinel, and a proxy that injects faults of
// the network.
//
// Use it in tests of code that talks to a server; there is no fake server. A test is
// skipped, with a reason, if no server is installed (scripts/install-test-servers
// installs one).
//
// Each server belongs to one test. It listens on a free loopback port, starts empty,
// does not persist, and ends with the test. On Linux it also ends if the test binary
// is killed. The environment variable STINT_TEST_REDIS names the
// server of .cache/servers to run: valkey or redis-6.2. Without it the server is
// that of PATH, Valkey before Redis.
package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

// patience is the timeout of every operation in this package. It is generous, for
// machines that are busy with other tests.
const patience = 30 * time.Second

// longestPause bounds the time between two checks of a condition. A check takes
// processors that the servers need.
const longestPause = 50 * time.Millisecond

// Server starts one server that accepts connections when Server returns. The
// options are those of its configuration file, as on its command line:
// "--maxmemory", "10mb".
func Server(t testing.TB, options ...string) *Process {
	t.Helper()
	p := newProcess(t, Binary(t))
	p.options = append(slices.Clone(options), "--save", "", "--appendonly", "no")
	p.launch()
	return p
}

// SocketPath returns a path for the Unix socket of a server, as of the setting
// unixsocket. The folder of a test may be too long for one: the path has at most 107
// bytes on Linux, and 103 on other systems.
func SocketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stint") //nolint:usetesting // the path of t.TempDir may be too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "redis.sock")
}

// Binary returns the path of the server program that tests run. It skips the
// test when there is none.
func Binary(t testing.TB) string {
	t.Helper()
	if name := os.Getenv("STINT_TEST_REDIS"); name != "" {
		return testserver.Pinned(t, name)
	}
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("needs a server, and neither valkey-server nor redis-server is on PATH (run scripts/install-test-servers)")
	return ""
}

// Version returns what the server program says of itself: its name and its major
// and minor version, such as "redis", 6 and 2.
func Version(t testing.TB) (name string, major, minor int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, Binary(t), "--version").Output()
	if err != nil {
		t.Fatalf("version of %s: %v", Binary(t), err)
	}
	// Redis server v=7.0.15 sha=…
	if _, err := fmt.Sscanf(string(out), "%s server v=%d.%d", &name, &major, &minor); err != nil {
		t.Fatalf("version of %s: %q: %v", Binary(t), out, err)
	}
	return strings.ToLower(name), major, minor
}

// IsRedis6 reports whether the server is Redis before version 7, which lacks
// some of what later servers and Valkey have.
func IsRedis6(t testing.TB) bool {
	t.Helper()
	_, major, _ := Version(t)
	return major < 7
}

// Await waits until missing returns nil. If that takes longer than patience, Await
// fails the test with the last error.
func Await(t testing.TB, missing func() error) {
	t.Helper()
	pause := time.Millisecond
	for end := time.Now().Add(patience); ; pause = min(2*pause, longestPause) {
		err := missing()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %v", patience, err)
		}
		<-time.After(pause)
	}
}
