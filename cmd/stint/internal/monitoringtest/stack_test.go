//go:build linux

// Package monitoringtest tests the alerts and dashboards of deploy/: that the rendered
// files are fresh, that each alert has tests and a page, and that real servers, Prometheus
// and Alertmanager make of them what they promise.
//
// It contains only tests. Those of a program that is not installed are skipped;
// scripts/install-test-servers installs the programs.
package monitoringtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
	"github.com/stintdev/stint/internal/testserver"
)

// stint is the path of the program under test, which the first test that needs it builds.
var stint = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "monitoringtest")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "stint")
	if out, err := exec.Command("go", "build", "-o", path, "../..").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) { os.Exit(runAndRemove(m)) }

func runAndRemove(m *testing.M) int {
	defer func() {
		if path, err := stint(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}()
	return m.Run()
}

// serve starts Stint with an admin port and the given arguments, and returns the address
// of that port.
func serve(t *testing.T, args ...string) (admin string) {
	t.Helper()
	program, err := stint()
	if err != nil {
		t.Fatal(err)
	}
	admin = testserver.FreeAddr(t)
	processtest.Start(t, admin, program, append([]string{
		"serve", "--admin", admin, "--grpc", "off", "--state-dir", t.TempDir(),
	}, args...)...)
	return admin
}

// scraped is a target of Prometheus. It passes each scrape on to a server, and keeps the
// last pages.
type scraped struct {
	*httptest.Server

	mu    sync.Mutex
	pages []string // guarded by mu; one of each scrape
}

func scrapedThrough(t *testing.T, addr string) *scraped {
	t.Helper()
	s := &scraped{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		page, _ := io.ReadAll(resp.Body) // a cut page fails the scrape
		s.mu.Lock()
		s.pages = append(s.pages, string(page))
		s.mu.Unlock()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		_, _ = w.Write(page)
	}))
	t.Cleanup(s.Close)
	return s
}

// since leaves out the first scrapes, as many as from, and returns the number of scrapes
// since the first of the others that shows a match of pattern, itself included.
func (s *scraped) since(from int, pattern *regexp.Regexp) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, page := range s.pages[from:] {
		if pattern.MatchString(page) {
			return len(s.pages) - from - i
		}
	}
	return 0
}

func (s *scraped) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pages)
}

// prometheus is a Prometheus that scrapes once a second, with the rules of deploy/, whose
// alerts fire at once.
type prometheus struct{ url string }

func startPrometheus(t *testing.T, alertmanager string, jobs map[string][]string) *prometheus {
	t.Helper()
	program, dir := tool(t, "prometheus"), t.TempDir()
	held := regexp.MustCompile(`(?m)^( *for: ).*`)
	for _, name := range []string{"rules.yaml", "alerts.yaml"} {
		write(t, filepath.Join(dir, name), held.ReplaceAllString(read(t, filepath.Join(top, "deploy/prometheus", name)), "${1}0s"))
	}
	text := "global: {scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}\nrule_files: [rules.yaml, alerts.yaml]\n"
	if alertmanager != "" {
		text += fmt.Sprintf("alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}\n", alertmanager)
	}
	text += "scrape_configs:\n"
	for job, targets := range jobs {
		list, err := json.Marshal(targets)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: %s}]}\n", job, list)
	}
	config := filepath.Join(dir, "prometheus.yml")
	write(t, config, text)
	addr := testserver.FreeAddr(t)
	processtest.Start(t, addr, program, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", addr, "--log.level", "warn")
	return &prometheus{"http://" + addr}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// query returns the number of series that an expression has now.
func (p *prometheus) query(expr string) (series int, err error) {
	resp, err := http.Get(p.url + "/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", answer.Error, expr)
	}
	return len(answer.Data.Result), nil
}

// notified are the alerts that Alertmanager sends to its receiver.
type notified struct {
	alertmanager string
	alerts       chan map[string]string // the labels of each
}

// startAlertmanager starts an Alertmanager that sends each alert at once.
func startAlertmanager(t *testing.T) *notified {
	t.Helper()
	program, dir := tool(t, "prometheus-alertmanager", "alertmanager"), t.TempDir()
	n := &notified{alerts: make(chan map[string]string, 1000)}
	receiver := httptest.NewServer(http.HandlerFunc(n.receive))
	t.Cleanup(receiver.Close)
	config := filepath.Join(dir, "alertmanager.yml")
	write(t, config, fmt.Sprintf(`
route: {receiver: test, group_by: ["..."], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: test, webhook_configs: [{url: %q, send_resolved: false}]}]
`, receiver.URL))
	n.alertmanager = testserver.FreeAddr(t)
	processtest.Start(t, n.alertmanager, program, "--config.file", config, "--storage.path", filepath.Join(dir, "data"),
		"--web.listen-address", n.alertmanager, "--cluster.listen-address", "", "--log.level", "warn")
	return n
}

func (n *notified) receive(_ http.ResponseWriter, r *http.Request) {
	var message struct {
		Alerts []struct{ Labels map[string]string }
	}
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		return
	}
	for _, a := range message.Alerts {
		n.alerts <- a.Labels
	}
}

// await returns the labels of the first alert of a name.
func (n *notified) await(t *testing.T, name string) map[string]string {
	t.Helper()
	for end := time.After(processtest.Patience); ; {
		select {
		case labels := <-n.alerts:
			if labels["alertname"] == name {
				return labels
			}
		case <-end:
			t.Fatalf("no alert %s within %v", name, processtest.Patience)
		}
	}
}

// check asks a server to decide a request. An error does not matter: servers stop and start.
func check(addr, key, path string) {
	post("http://"+addr+"/v1/check", fmt.Sprintf(`{"attributes":{"api_key":%q,"path":%q}}`, key, path))
}

func post(url, body string) {
	if resp, err := http.Post(url, "application/json", strings.NewReader(body)); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// repeat calls do again and again until the test ends.
func repeat(t *testing.T, do func(n int)) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				do(n)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}
