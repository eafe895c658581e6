//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait.
const patience = time.Minute

// build compiles a command of a module, whose folder is relative to the repository, as
// make run does.
func build(t *testing.T, module, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(name))
	folder := filepath.Join("../..", module)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", folder, "-o", program, name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// start runs the demo and returns the address of its gateway once it is ready.
func start(t *testing.T) (demo *exec.Cmd, gateway string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	demo = exec.CommandContext(ctx, build(t, "examples", "./demo"), "-stint", build(t, ".", "./cmd/stint"),
		"-rules", "rules.yaml", "-http", "127.0.0.1:0", "-gateway", "127.0.0.1:0")
	demo.Env = append(os.Environ(), "STINT_ADMIN=127.0.0.1:0", "STINT_GRPC=off")
	logs, err := demo.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = demo.Process.Signal(syscall.SIGTERM); _ = demo.Wait() })
	return demo, address(t, logs)
}

func address(t *testing.T, logs io.Reader) (gateway string) {
	t.Helper()
	listening := regexp.MustCompile(`name=gateway addr=(\S+)`)
	var all []string
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		all = append(all, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			gateway = m[1]
		}
		if strings.Contains(lines.Text(), "msg=ready") {
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return gateway
		}
	}
	t.Fatalf("never ready:\n%s", strings.Join(all, "\n"))
	return ""
}

func TestSixthRequestIsDeniedAndNothingIsLeftBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	demo, gateway := start(t)
	for i := 1; i <= 6; i++ {
		want := http.StatusOK
		if i == 6 {
			want = http.StatusTooManyRequests
		}
		res := get(t, gateway, "")
		if res.StatusCode != want || res.Header.Get("X-RateLimit-Limit") != "5" {
			t.Fatalf("request %d: got %d and the limit %q, want %d and 5", i, res.StatusCode, res.Header.Get("X-RateLimit-Limit"), want)
		}
	}
	if res := get(t, gateway, "vip"); res.StatusCode != http.StatusOK || res.Header.Get("X-RateLimit-Limit") != "50" {
		t.Errorf("vip: got %d and the limit %q", res.StatusCode, res.Header.Get("X-RateLimit-Limit"))
	}
	if err := demo.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := demo.Wait(); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	if res, err := http.Get("http://" + gateway); err == nil {
		_ = res.Body.Close()
		t.Error("the server outlived the demo")
	}
}

func get(t *testing.T, addr, key string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}

func TestMissingServerNamesTheBuildCommand(t *testing.T) {
	err := run(&options{stint: filepath.Join(t.TempDir(), "stint"), http: ":0", gateway: ":0"})
	if err == nil || !strings.Contains(err.Error(), "go build") {
		t.Errorf("got %v, want the command that builds it", err)
	}
}

func TestReadyIsCalledAfterTheReadyLine(t *testing.T) {
	calls := ""
	relay(&strings.Builder{}, strings.NewReader("level=INFO msg=listening\nlevel=INFO msg=ready\nlevel=INFO msg=more\n"), func() { calls += "ready" })
	if calls != "ready" {
		t.Errorf("calls: %q", calls)
	}
}
