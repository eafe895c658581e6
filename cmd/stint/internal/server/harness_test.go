package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// patience bounds every wait of the tests. No test waits so long when it
// passes.
const patience = time.Minute

// start is the time at which the stores of the tests begin: a whole minute.
const start = int64(1_700_000_040_000_000)

// clock is the time of a store; only the test advances it.
type clock struct{ micros atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.micros.Store(start)
	return c
}

func (c *clock) time() time.Time     { return time.UnixMicro(c.micros.Load()) }
func (c *clock) add(d time.Duration) { c.micros.Add(d.Microseconds()) }

// running is a server in this process, on real sockets.
type running struct {
	t *testing.T
	*Server
	clock  *clock
	logs   *logBuffer
	stop   context.CancelFunc
	result chan error // the result of Run
}

// run starts a server on free ports of this machine, with the check API and
// the admin listener unless config names others.
func run(t *testing.T, config Config) *running {
	t.Helper()
	r := &running{t: t, clock: newClock(), logs: newLogBuffer(), result: make(chan error, 1)}
	if config.Store == nil {
		store := stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000, Clock: r.clock.time})
		config.Store, config.Stats = store, store.Stats
	}
	if config.HTTP == "" {
		config.HTTP = "127.0.0.1:0"
	}
	if config.Admin == "" {
		config.Admin = "127.0.0.1:0"
	}
	config.Logger = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = s
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.result <- s.Run(ctx); close(r.result) }()
	t.Cleanup(func() {
		stop()
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Opened():
	case err := <-r.result:
		t.Fatalf("the server ended: %v", err)
	case <-time.After(patience):
		t.Fatal("the server does not open")
	}
	return r
}

// end waits until Run has returned.
func (r *running) end() error {
	r.t.Helper()
	select {
	case err := <-r.result:
		return err
	case <-time.After(patience):
		r.t.Error("the server does not end")
		return nil
	}
}

func (r *running) url(name, path string) string {
	return "http://" + r.Addr(name).String() + path
}

// answer is a response, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// decoded is the body as JSON.
func (a answer) decoded(t *testing.T) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal([]byte(a.body), &value); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return value
}

// errorMessage is the message of an error body.
func (a answer) errorMessage() string {
	var body struct{ Error struct{ Message string } }
	_ = json.Unmarshal([]byte(a.body), &body)
	return body.Error.Message
}

func (r *running) post(name, path, body string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, name, path, body, nil)
}

func (r *running) get(name, path string, header ...string) answer {
	r.t.Helper()
	return r.do(http.MethodGet, name, path, "", header)
}

// do makes a request by a connection of its own. header is names and values
// in turn.
func (r *running) do(method, name, path, body string, header []string) answer {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url(name, path), strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	return send(r.t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: patience}}, request)
}

// send makes a request without following redirects.
func send(t *testing.T, client *http.Client, request *http.Request) answer {
	t.Helper()
	client.Timeout = patience
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// wantJSON compares a body with JSON text, in which every member matters.
func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %q", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("the test itself: %v in %q", err, want)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", strings.TrimSpace(got), want)
	}
}

// rulesFile writes a rule file and returns its path.
func rulesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, text)
	return path
}

// writeFile replaces a file in one step, as editors do, so that a server that watches the file
// never reads half of it.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// logBuffer keeps log lines and lets tests wait for one.
type logBuffer struct {
	mu   sync.Mutex
	more *sync.Cond // a condition on mu
	text bytes.Buffer
}

func newLogBuffer() *logBuffer {
	b := new(logBuffer)
	b.more = sync.NewCond(&b.mu)
	return b
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.more.Broadcast()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// wait returns once the log holds text.
func (b *logBuffer) wait(t *testing.T, text string) {
	t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		late = true
		b.more.Broadcast()
	})
	defer timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !strings.Contains(b.text.String(), text) {
		if late {
			t.Fatalf("the log never says %q:\n%s", text, b.text.String())
		}
		b.more.Wait()
	}
}
