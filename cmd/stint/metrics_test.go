package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/memcachedtest"
	"github.com/stintdev/stint/internal/redistest"
)

// family is a metric family, as a server exports it or as docs/metrics.md describes it.
type family struct {
	kind   string
	labels []string // sorted
}

func (f family) String() string { return fmt.Sprint(f.kind, " ", f.labels) }

var (
	typeLine   = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? `)
	labelText  = regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)
	documented = regexp.MustCompile("(?m)^\\| `(stint_[a-z_]+)` \\| (\\w+) \\| ([^|]+) \\|([^|]*)\\|")
	codeWords  = regexp.MustCompile("`([a-z_]+)`")
)

// exported adds the families in the text of a scrape.
func exported(t *testing.T, text string, all map[string]family) {
	t.Helper()
	current, kind := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := typeLine.FindStringSubmatch(line); m != nil {
			current, kind = m[1], m[2]
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(current, "stint_") {
			continue
		}
		var labels []string
		for _, l := range labelText.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		slices.Sort(labels)
		now := family{kind, labels}
		if before, known := all[current]; known && before.String() != now.String() {
			t.Errorf("%s is %v and %v", current, before, now)
		}
		all[current] = now
	}
}

// TestMetricsAreThoseInTheDocument compares the families of servers that use everything with
// docs/metrics.md: the names, the types and the labels. A feature with a family that is not
// exported here belongs into the flags below.
func TestMetricsAreThoseInTheDocument(t *testing.T) {
	actual := map[string]family{}
	for _, text := range []string{scrapeShared(t), scrapeMemcached(t), scrapeQuorum(t), scrapeMemory(t), scrapeCanary(t), scrapeStores(t)} {
		exported(t, text, actual)
	}
	named := map[string]family{}
	for _, row := range documented.FindAllStringSubmatch(contentOf(t, "../../docs/metrics.md"), -1) {
		var labels []string
		for _, l := range codeWords.FindAllStringSubmatch(row[4], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		named[row[1]] = family{row[2], labels}
	}
	for name, f := range actual {
		if want, ok := named[name]; !ok {
			t.Errorf("docs/metrics.md lacks %s, a %v", name, f)
		} else if want.String() != f.String() {
			t.Errorf("docs/metrics.md says that %s is a %v; it is a %v", name, want, f)
		}
	}
	for name := range named {
		if _, ok := actual[name]; !ok {
			t.Errorf("docs/metrics.md has %s, and no server here exports it", name)
		}
	}
	if len(named) < 70 {
		t.Errorf("%d families documented", len(named))
	}
}

const measuredRules = `
rules:
  - id: api
    by: [api_key]
    limit: 1/m
    penalty: {after: 2, window: 10m, cool_down: 1h}
  - {id: hot, match: {path_prefix: /hot}, by: [api_key], limit: 1000/s, consistency: leased}
  - {id: plans, match: {path_prefix: /plans}, by: [api_key], limit: 10/m, override: {vip: {limit: 20, window: 1m}}}
`

// scrapeShared returns the metrics of a server with a store in Redis and with a gateway.
func scrapeShared(t *testing.T) string {
	t.Helper()
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	folder := t.TempDir()
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), measuredRules)
	gateway := writeFile(t, filepath.Join(folder, "gateway.yaml"), fmt.Sprintf(`
upstreams:
  api: {servers: [%s], bulkhead: {limit: 10}, retry: {attempts: 2}}
routes:
  - {path_prefix: /, upstream: api}
`, upstream.URL))
	envoy := filepath.Dir(writeFile(t, filepath.Join(t.TempDir(), "shop.yaml"), envoyDomain))
	p := startServer(t, []string{"STINT_STORE=redis://" + redistest.Server(t).Addr()}, "--rules", rules, "--resp", "127.0.0.1:0",
		"--gateway", "127.0.0.1:0", "--gateway-config", gateway, "--gateway-adapt", "gradient", "--gateway-connections-per-address", "100",
		"--decision-log", filepath.Join(folder, "decisions.jsonl"), "--envoy-config", envoy, "--envoy-compat", "--store-deadline", "5s", "--store-slow", "0")
	for range 5 {
		post(t, p, "/v1/check", `{"attributes":{"api_key":"k","path":"/"}}`)
	}
	do(t, http.MethodGet, "http://"+p.addr("gateway")+"/hot", "")
	p.awaitMetric("stint_clock_skew_seconds{")
	p.awaitMetric("stint_store_breaker_open{")
	return p.metrics()
}

// scrapeMemcached returns the metrics of a server with a store that compares and swaps.
func scrapeMemcached(t *testing.T) string {
	t.Helper()
	return startServer(t, nil, "--store", "memcached://"+memcachedtest.Start(t).Addr()).metrics()
}

// scrapeQuorum returns the metrics of a server with a quorum of Redis servers.
func scrapeQuorum(t *testing.T) string {
	t.Helper()
	_, url := quorumOf(t)
	return startServer(t, nil, "--store", url).metrics()
}

// scrapeStores returns the metrics of a server with two stores, without the label that tells
// them apart.
func scrapeStores(t *testing.T) string {
	t.Helper()
	text := startServer(t, nil, "--store", "critical=redis://"+redistest.Server(t).Addr()).metrics()
	for _, series := range []string{`stint_store_up{store="critical"}`, `stint_store_up{store="default"}`, `stint_keys{store="default"}`} {
		if !strings.Contains(text, series) {
			t.Error("there is no", series)
		}
	}
	return regexp.MustCompile(`\{store="[a-z]+"\}|,store="[a-z]+"`).ReplaceAllString(text, "")
}

// scrapeMemory returns the metrics of a server with TLS, tokens and a store in memory.
func scrapeMemory(t *testing.T) string {
	t.Helper()
	certificate, key := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	keys := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	}))
	keys.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	keys.StartTLS()
	t.Cleanup(keys.Close)
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), "s3cret\n")
	p := startServer(t, []string{"SSL_CERT_FILE=" + certificate}, "--tls-cert", certificate, "--tls-key", key, "--jwt-keys", keys.URL,
		"--admin-token-file", token, "--http-token-file", token, "--resp", "127.0.0.1:0", "--native-histograms", "--otlp", "http://127.0.0.1:1")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.addr("admin")+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer s3cret")
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(err, response.Status)
	}
	return string(text)
}

// scrapeCanary returns the metrics of a server that runs a canary.
func scrapeCanary(t *testing.T) string {
	t.Helper()
	f := newCanaryFleet(t)
	f.run(exitDone, nil, "rules", "apply", f.file("new.yaml", canaryNew), "--canary", "50%", "--yes")
	f.await(`msg="canary on"`)
	return f.nodes[0].metrics()
}
