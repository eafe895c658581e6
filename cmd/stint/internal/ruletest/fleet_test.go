package ruletest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/redisrules"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/rule"
)

// patience is the timeout of every wait. A passing test waits much less.
const patience = 30 * time.Second

// binary is the path of the program under test, which is built once. It is
// empty in short mode.
var binary string

func TestMain(m *testing.M) {
	if what := os.Getenv(victimKind); what != "" {
		fmt.Fprintln(os.Stderr, beVictim(what, os.Getenv(victimFolder)))
		os.Exit(1)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "stint")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	binary = filepath.Join(folder, "stint")
	if out, err := exec.Command("go", "build", "-o", binary, "../..").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}

// node is a server process.
type node struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    *bytes.Buffer // read it only after ended is closed
	ended  chan struct{}
	addr   string // address of the check API
	client *http.Client
}

// startNode starts a server with these rules and waits until it is ready.
func startNode(t *testing.T, stateDir string, args ...string) *node {
	t.Helper()
	n := &node{t: t, log: &bytes.Buffer{}, ended: make(chan struct{}), client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	args = append([]string{
		"serve", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "off", "--max-keys", "10000", "--drain-delay", "0s", "--state-dir", stateDir,
		"--store-deadline", "5s", "--store-slow", "0", // a busy machine degrades no check
	}, args...)
	n.cmd = exec.Command(binary, args...)
	n.cmd.Env = []string{"GOMAXPROCS=2"}
	pipe, err := n.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go func() { defer close(n.ended); n.read(pipe, ready) }()
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", n.addr, n.log)
		}
	})
	select {
	case n.addr = <-ready:
	case <-n.ended:
		t.Fatalf("the server ended:\n%s", n.log)
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
	return n
}

func (n *node) read(pipe io.Reader, ready chan<- string) {
	addr := ""
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		line := lines.Text()
		n.log.WriteString(line + "\n")
		if _, after, ok := strings.Cut(line, "listening name=http addr="); ok {
			addr = after
		}
		if strings.HasSuffix(line, "msg=ready") {
			ready <- addr
		}
	}
}

// kill ends the process without a shutdown, as a crash would.
func (n *node) kill() {
	_ = n.cmd.Process.Kill() // fails if the process has ended
	<-n.ended
	_ = n.cmd.Wait()
	n.client.CloseIdleConnections()
}

// decision is the part of a check API answer that these tests need.
type decision struct {
	Allowed  bool   `json:"allowed"`
	Degraded bool   `json:"degraded"`
	Rule     string `json:"rule"`
	Limit    int64  `json:"limit"`
	Remains  int64  `json:"remaining"`
	Limits   []struct {
		Rule string `json:"rule"`
	} `json:"limits"`
}

// check decides one request of one caller.
func (n *node) check() (d decision, err error) {
	r, err := n.client.Post("http://"+n.addr+"/v1/check", "application/json", strings.NewReader(`{"attributes":{"api_key":"k","path":"/"}}`))
	if err != nil {
		return d, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return d, err
	}
	if r.StatusCode != http.StatusOK {
		return d, fmt.Errorf("status %d: %s", r.StatusCode, body)
	}
	return d, json.Unmarshal(body, &d)
}

// operator publishes versions to the source of a fleet.
type operator struct {
	t *testing.T
	*ruleset.Manager
}

func newOperator(t *testing.T, addr string) *operator {
	t.Helper()
	s, err := redisrules.New(redisstore.Options{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &operator{t, ruleset.NewManager(ruleset.Options{Source: s, OnSet: func(*rule.Set, ruleset.Version) {}})}
}

func (o *operator) publish(text string) ruleset.Version {
	o.t.Helper()
	v, err := o.Publish(o.t.Context(), ruleset.Change{Files: []rule.File{{Name: "rules.yaml", Data: []byte(text)}}, Anyway: true, Author: "test"})
	if err != nil {
		o.t.Fatal(err)
	}
	return v
}

// push publishes without parsing first, because parsing would take processor
// time from the measured servers.
func (o *operator) push(text string) {
	o.t.Helper()
	newest, err := o.History(o.t.Context(), 1)
	if err != nil {
		o.t.Fatal(err)
	}
	files := []rule.File{{Name: "rules.yaml", Data: []byte(text)}}
	v := ruleset.Version{Number: newest[0].Number + 1, Time: time.Now(), Hash: ruleset.HashOf(files), Files: files}
	if _, err := o.Source.Publish(o.t.Context(), newest[0].Number, v); err != nil {
		o.t.Fatal(err)
	}
}

// manyRules returns a set of n rules that all carry a version. Requests match
// the first, the middle and the last of them.
func manyRules(version, n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		path := fmt.Sprintf("/never/%d", i)
		if i == 0 || i == n/2 || i == n-1 {
			path = "/"
		}
		fmt.Fprintf(&b, "  - {id: v%d-%d, limit: 1000000/s, match: {path_prefix: %q}}\n", version, i, path)
	}
	return b.String()
}

// server starts a Redis for one test.
func server(t *testing.T) (*redistest.Process, string) {
	t.Helper()
	skipShort(t)
	p := redistest.Server(t)
	return p, "redis://" + p.Addr() + "/0"
}
