package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/redistest"
)

const surfaceRules = `
rules:
  - {id: api, match: {path_prefix: /api}, by: [api_key], limit: 2, window: 1h}
  - {id: near, match: {path_prefix: /near}, by: [api_key], limit: 10, window: 1h}
  - {id: hot, match: {path_prefix: /hot}, by: [api_key], limit: 100000, window: 1h, algorithm: token_bucket, consistency: leased}
  - {id: punished, match: {path_prefix: /punished}, by: [api_key], limit: 1, window: 1h, penalty: {after: 1, window: 10m, cool_down: 1h}}
`

// everySurface is a server with TLS on all listeners, a Redis Cluster, a gateway, leases and
// limits of Envoy. All requests go to one process.
type everySurface struct {
	*process

	client *http.Client
	tls    *tls.Config
}

func startEverySurface(t *testing.T, cluster *redistest.ClusterServers, certificate, key string) *everySurface {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/broken") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(upstream.Close)
	folder := t.TempDir()
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), surfaceRules)
	gateway := writeFile(t, filepath.Join(folder, "gateway.yaml"), fmt.Sprintf("upstreams: {app: {servers: [%s]}}\nroutes: [{path_prefix: /, upstream: app, name: all}]\n", upstream.URL))
	envoy := filepath.Dir(writeFile(t, filepath.Join(t.TempDir(), "shop.yaml"), envoyDomain))
	p := startServer(t, nil, "--rules", rules, "--store", "redis-cluster://"+strings.Join(cluster.Addrs(), ","), "--store-deadline", "5s", "--store-slow", "0",
		"--resp", "127.0.0.1:0", "--gateway", "127.0.0.1:0", "--gateway-config", gateway, "--envoy-config", envoy, "--lease-time", "1s",
		"--tls-cert", certificate, "--tls-key", key)
	trust := &tls.Config{InsecureSkipVerify: true}
	return &everySurface{p, &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: trust}}, trust}
}

// ask sends a request to a listener, and returns the body. Its status does not matter.
func (s *everySurface) ask(method, listener, path, body string, header ...string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "https://"+s.addr(listener)+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *everySurface) check(key, path string) {
	s.t.Helper()
	_ = s.ask(http.MethodPost, "http", "/v1/check", fmt.Sprintf(`{"attributes":{"api_key":%q,"path":%q}}`, key, path))
}

// samples returns all series of a scrape.
func (s *everySurface) samples() map[string]float64 {
	s.t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(s.ask(http.MethodGet, "admin", "/metrics", "")) {
		i := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64); err == nil && strings.HasPrefix(line, "stint_") {
			all[line[:i]] = value
		}
	}
	return all
}

// wantAll waits until all series have their values.
func (s *everySurface) wantAll(want map[string]float64) {
	s.t.Helper()
	await(s.t, "the metrics", func() (bool, string) {
		got, wrong := s.samples(), ""
		for series, n := range want {
			if value, ok := got[series]; !ok || value != n {
				wrong += fmt.Sprintf("\n%s is %v, want %v (exported: %v)", series, value, n, ok)
			}
		}
		return wrong == "", wrong
	})
}

// want waits until a series meets a condition.
func (s *everySurface) want(series string, condition func(float64) bool) {
	s.t.Helper()
	await(s.t, series, func() (bool, string) {
		value, ok := s.samples()[series]
		return ok && condition(value), fmt.Sprint(value, ", exported: ", ok)
	})
}

func is(want float64) func(float64) bool { return func(got float64) bool { return got == want } }
func above(least float64) func(float64) bool {
	return func(got float64) bool { return got > least }
}

// Every surface is counted, over TLS and on a Cluster, with the shards, the leases, the penalties,
// the certificates and an emergency. Then a server of the store dies, and its shard alone shows it.
func TestMetricsOfEverySurfaceOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("forms a Cluster")
	}
	certificate, key := selfSigned(t)
	cluster := redistest.Cluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	s := startEverySurface(t, cluster, certificate, key)

	s.byHTTP()
	s.byRESP()
	s.byGRPC()
	want := map[string]float64{
		`stint_unmatched_total{surface="check"}`: 1, `stint_unmatched_total{surface="auth"}`: 1, `stint_unmatched_total{surface="gateway"}`: 2, `stint_unmatched_total{surface="grpc"}`: 1, `stint_unmatched_total{surface="envoy"}`: 1,
		`stint_limit_denials_total{limit="token_bucket:1h",rule="api"}`: 4, `stint_limit_near_total{limit="token_bucket:1h",rule="near"}`: 2,
		`stint_decisions_total{decision="deny",rule="(take)"}`: 2, `stint_decisions_total{decision="deny",rule="shop.user"}`: 1,
		`stint_penalties_active{penalty="cool_down",rule="punished"}`: 1, `stint_penalty_denials_total{rule="punished"}`: 2,
		`stint_limit_info{algorithm="token_bucket",consistency="leased",limit="token_bucket:1h",mode="enforce",on_store_failure="open",rule="hot",tier=""}`: 1,
		`stint_gateway_upstream_responses_total{status="2xx",upstream="app"}`:                                                                               3, `stint_gateway_upstream_responses_total{status="5xx",upstream="app"}`: 1,
		`stint_gateway_upstream_duration_seconds_count{upstream="app"}`: 4, `stint_ready`: 1, `stint_store_up`: 1, `stint_emergency`: 0,
	}
	for surface, outcomes := range map[string][3]float64{"check": {14, 3, 1}, "take": {1, 1, 0}, "auth": {3, 1, 0}, "gateway": {4, 1, 0}, "resp": {1, 1, 0}, "envoy": {6, 1, 1}, "grpc": {3, 1, 0}} {
		for i, outcome := range []string{"allow", "deny", "invalid"} {
			want[fmt.Sprintf(`stint_requests_total{outcome=%q,surface=%q}`, outcome, surface)] = outcomes[i]
		}
		s.want(fmt.Sprintf(`stint_check_duration_seconds_count{surface=%q}`, surface), above(0))
	}
	s.wantAll(want)
	s.wantCertificates(certificate)
	s.wantLeases()
	s.wantEmergency()
	s.wantShards(cluster)
}

// byHTTP asks every surface of HTTP.
func (s *everySurface) byHTTP() {
	for range 3 {
		s.check("k", "/api")
		s.ask(http.MethodGet, "http", "/v1/auth/api", "", "X-Api-Key", "a")
		s.ask(http.MethodGet, "gateway", "/api", "", "X-Api-Key", "g")
		s.check("p", "/punished")
	}
	s.check("k", "/none")
	s.ask(http.MethodPost, "http", "/v1/check", `{}`)
	s.ask(http.MethodGet, "http", "/v1/auth/none", "", "X-Api-Key", "a")
	s.ask(http.MethodGet, "gateway", "/none", "", "X-Api-Key", "g")
	s.ask(http.MethodGet, "gateway", "/broken", "", "X-Api-Key", "g")
	for range 10 { // the last two have less than 20 % left
		s.check("n", "/near")
	}
	for range 2 {
		s.ask(http.MethodPost, "http", "/v1/take", `{"key":"t","limit":"1/h"}`)
	}
	for range 6 {
		s.ask(http.MethodPost, "http", "/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`)
	}
	s.ask(http.MethodPost, "http", "/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"other","value":"u"}]}]}`)
	s.ask(http.MethodPost, "http", "/json", `{"domain":"shop"}`)
}

func (s *everySurface) byRESP() {
	s.t.Helper()
	conn, err := tls.Dial("tcp", s.addr("resp"), s.tls)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, "CL.THROTTLE u 0 1 3600\r\nCL.THROTTLE u 0 1 3600\r\nPING\r\n"); err != nil {
		s.t.Fatal(err)
	}
	for reader := bufio.NewReader(conn); ; {
		if line, err := reader.ReadString('\n'); err != nil || strings.HasPrefix(line, "+PONG") {
			if err != nil {
				s.t.Error(err)
			}
			return
		}
	}
}

func (s *everySurface) byGRPC() {
	s.t.Helper()
	conn, err := grpc.NewClient(s.addr("grpc"), grpc.WithTransportCredentials(credentials.NewTLS(s.tls)))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for _, path := range []string{"/api", "/api", "/api", "/none"} {
		if _, err := stintv1.NewLimiterServiceClient(conn).Check(ctx, &stintv1.CheckRequest{Attributes: map[string]string{"api_key": "rpc", "path": path}}); err != nil {
			s.t.Error(err)
		}
	}
}

// wantCertificates compares the expiry of each listener with the certificate.
func (s *everySurface) wantCertificates(path string) {
	s.t.Helper()
	block, _ := pem.Decode([]byte(contentOf(s.t, path)))
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, listener := range []string{"http", "grpc", "resp", "admin", "gateway"} {
		s.want(fmt.Sprintf(`stint_certificate_expiry_timestamp_seconds{listener=%q}`, listener), is(float64(parsed.NotAfter.Unix())))
	}
}

// wantLeases asks for a hot key until a lease decides.
func (s *everySurface) wantLeases() {
	s.t.Helper()
	const local = `stint_lease_local_total{decision="allow"}`
	await(s.t, local, func() (bool, string) {
		for range 50 {
			s.check("hot", "/hot")
		}
		all := s.samples()
		return all[local] > 0 && all["stint_lease_keys"] > 0 && all[`stint_lease_tokens_total{kind="granted"}`] > 0 && all["stint_lease_renewals_total"] > 0 && all["stint_lease_asked_total"] > 0,
			fmt.Sprint(all[local], " of ", all["stint_lease_asked_total"])
	})
}

func (s *everySurface) wantEmergency() {
	s.t.Helper()
	before := s.samples()
	s.ask(http.MethodPut, "admin", "/v1/emergency", `{"limit":"1/h","by":"api_key","for":"10m"}`)
	s.want("stint_emergency", is(1))
	s.want("stint_emergency_end_timestamp_seconds", func(end float64) bool {
		left := end - float64(time.Now().Unix())
		return left > 500 && left < 700
	})
	for range 3 {
		s.check("flood", "/none")
	}
	s.ask(http.MethodGet, "gateway", "/none", "", "X-Api-Key", "flood")
	s.want(`stint_decisions_total{decision="deny",rule="emergency"}`, is(3))
	s.want(`stint_requests_total{outcome="deny",surface="check"}`, is(before[`stint_requests_total{outcome="deny",surface="check"}`]+2))
	s.want(`stint_requests_total{outcome="deny",surface="gateway"}`, is(before[`stint_requests_total{outcome="deny",surface="gateway"}`]+1))
	s.ask(http.MethodDelete, "admin", "/v1/emergency", "")
	s.want("stint_emergency", is(0))
}

// wantShards checks the metrics of each server of the store, and stops one.
func (s *everySurface) wantShards(cluster *redistest.ClusterServers) {
	s.t.Helper()
	shard := func(metric, addr string) string { return fmt.Sprintf("%s{shard=%q}", metric, addr) }
	degraded := func(addr string) string {
		return fmt.Sprintf(`stint_degraded_decisions_total{policy="open",shard=%q}`, addr)
	}
	for i := range 30 { // keys of all servers
		s.check(fmt.Sprint("spread", i), "/near")
	}
	for _, master := range cluster.Masters() {
		s.want(shard("stint_store_duration_seconds_count", master.Addr()), above(0))
		s.want(shard("stint_store_breaker_open", master.Addr()), is(0))
		s.want(shard("stint_clock_skew_seconds", master.Addr()), func(skew float64) bool { return skew > -0.5 && skew < 0.5 })
		s.want(shard("stint_clock_skew_measured_timestamp_seconds", master.Addr()), func(at float64) bool { return time.Since(time.Unix(int64(at), 0)) < 10*time.Second })
		s.want(degraded(master.Addr()), is(0))
	}
	victim := otherThan(cluster, "stint:nodes")
	victim.Kill()
	await(s.t, "the dead shard is seen", func() (bool, string) {
		for i := range 30 {
			s.check(fmt.Sprint("spread", i), "/near")
		}
		all := s.samples()
		return all[degraded(victim.Addr())] > 0 && all["stint_store_up"] == 0 && all[`stint_requests_total{outcome="degraded_allow",surface="check"}`] > 0, fmt.Sprint(all[degraded(victim.Addr())])
	})
	stale := s.samples()[shard("stint_clock_skew_measured_timestamp_seconds", victim.Addr())]
	for _, master := range cluster.Masters() {
		if master != victim {
			s.want(shard("stint_clock_skew_measured_timestamp_seconds", master.Addr()), above(stale+2))
			s.want(degraded(master.Addr()), is(0))
		}
	}
	s.want(shard("stint_clock_skew_measured_timestamp_seconds", victim.Addr()), is(stale))
}

// otherThan returns a server that does not have the key.
func otherThan(cluster *redistest.ClusterServers, key string) *redistest.Process {
	owner := cluster.Owner(cluster.Slot(key))
	for _, master := range cluster.Masters() {
		if master != owner {
			return master
		}
	}
	return nil
}
