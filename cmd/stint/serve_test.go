package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const oneAMinute = "rules:\n  - {id: one, match: {path_prefix: /}, by: [api_key], limit: 1, window: 60}\n"

func TestListenersSayWhereTheyAreAndThenReady(t *testing.T) {
	p := startServer(t, nil)
	for _, name := range []string{"http", "grpc", "admin"} {
		if _, port, err := net.SplitHostPort(p.addr(name)); err != nil || port == "0" {
			t.Errorf("%s listens on %q", name, p.addr(name))
		}
	}
	if last := p.lines[len(p.lines)-1]; !strings.HasSuffix(last, "msg=ready") {
		t.Errorf("the last line is %q", last)
	}
	if strings.Contains(strings.Join(p.lines, "\n"), "name=gateway") {
		t.Error("the gateway listens by default")
	}
}

func TestOffDisablesAListener(t *testing.T) {
	p := startServer(t, []string{"STINT_GRPC=127.0.0.1:0"}, "--grpc", "off")
	if log := strings.Join(p.lines, "\n"); strings.Contains(log, "name=grpc") {
		t.Error(log)
	}
}

func TestClockOfTheMemoryStore(t *testing.T) {
	for clock, processor := range map[string]bool{clockAuto: true, clockKernel: false} {
		var log bytes.Buffer
		options := (&serveFlags{clock: clock}).memoryOptions(slog.New(slog.NewTextHandler(&log, nil)))
		if options.ProcessorClock != processor {
			t.Errorf("--clock %s: %+v", clock, options)
		}
		options.OnClockFallback("it ran backwards")
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, `reason="it ran backwards"`) {
			t.Errorf("--clock %s: a fallback logs %q", clock, got)
		}
		p := startServer(t, nil, "--clock", clock)
		if got := post(t, p, "/v1/take", `{"key":"k","limit":"1/s"}`); !strings.Contains(got, `"allowed":true`) {
			t.Errorf("--clock %s: %s", clock, got)
		}
	}
}

func TestLogsAreJSONWhereAsked(t *testing.T) {
	p := startProcess(t, []string{"STINT_LOG_FORMAT=json"}, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "off")
	if line := p.wait(`"msg":"listening"`); !strings.Contains(line, `"name":"http"`) || !strings.Contains(line, `"addr":"127.0.0.1:`) {
		t.Error(line)
	}
	p.wait(`"msg":"ready"`)
}

func TestTermDrainsWhileRequestsEnd(t *testing.T) {
	p := startServer(t, nil, "--drain-delay", "8s")
	slow := dial(t, p.addr("http"))
	const body = `{"key":"k","limit":"1/s"}`
	slow.send("POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\n" + body[:10])
	p.signal(syscall.SIGTERM)
	p.wait("msg=draining")
	if status, _ := get(t, p, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d while draining", status)
	}
	if status, _ := get(t, p, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d while draining", status)
	}
	slow.send(body[10:] + "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") // the last request of this connection
	if got := slow.readAll(); !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, `"allowed":true`) || !strings.Contains(got, "Connection: close") {
		t.Errorf("the request in flight and the one after it got %q", got)
	}
}

func TestTermExitsWithDone(t *testing.T) {
	p := startServer(t, nil, "--drain-delay", "0s")
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if status := p.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestInterruptExitsWithDone(t *testing.T) {
	p := startServer(t, nil, "--drain-delay", "0s")
	p.signal(os.Interrupt)
	if status := p.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
}

func TestSignalsTakeEffectWhileTheStoreIsOpened(t *testing.T) {
	p := startProcess(t, nil, "serve", "--store", "redis-cluster://127.0.0.1:1", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "off")
	p.wait("counting in a shared store")
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGTERM)
	if status := p.exit(); status != exitDone {
		t.Errorf("status %d", status)
	}
}

func TestStuckRequestIsCutWithinTenSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the bound of draining")
	}
	p := startServer(t, nil, "--drain-delay", "0s")
	stuck := dial(t, p.addr("http"))
	stuck.send("POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\n{")
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if status, took := p.exit(), time.Since(begun); status != exitDone || took > 10*time.Second {
		t.Errorf("status %d after %v", status, took)
	}
}

func TestHangupReloadsRulesWholeOrNot(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), oneAMinute)
	p := startServer(t, nil, "--rules", file)
	writeFile(t, file, "rules:\n  - {id: one, limit: 1, windw: 60}\n")
	p.signal(syscall.SIGHUP)
	if line := p.wait("rules rejected"); !strings.Contains(line, "rules.yaml:2:") || !strings.Contains(line, "window") {
		t.Error(line)
	}
	if rule := ruleThatDecides(t, p); rule != "one" {
		t.Errorf("rule %q decides, want the last good one", rule)
	}
	writeFile(t, file, strings.ReplaceAll(oneAMinute, "id: one", "id: two"))
	p.signal(syscall.SIGHUP)
	p.wait("rules reloaded")
	if rule := ruleThatDecides(t, p); rule != "two" {
		t.Errorf("rule %q decides after a reload", rule)
	}
}

func TestChangedFileIsReloadedByItself(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), oneAMinute)
	p := startServer(t, nil, "--rules", file)
	ruleThatDecides(t, p)
	writeFile(t, file, strings.ReplaceAll(oneAMinute, "id: one", "id: two"))
	p.wait("rules reloaded")
	if rule := ruleThatDecides(t, p); rule != "two" {
		t.Errorf("rule %q decides after a reload", rule)
	}
}

func TestWrongConfigurationExitsWithTwoAndSaysWhy(t *testing.T) {
	folder := t.TempDir()
	bad := writeFile(t, filepath.Join(folder, "bad.yaml"), "rules:\n  - {id: a, limit: 1, windw: 60}\n  - {id: b, limitt: 1}\n")
	empty := writeFile(t, filepath.Join(folder, "empty"), "\n")
	routes := writeFile(t, filepath.Join(folder, "routes.yaml"), "upstreams: {a: http://h}\n")
	wrongRoutes := writeFile(t, filepath.Join(folder, "wrong.yaml"), "upstreams: {a: http://h}\nroutes: [{upstream: b}]\n")
	plans := writeFile(t, filepath.Join(folder, "plans.yaml"), "upstreams: {a: http://h}\nroutes: [{upstream: a, request_headers: {set: {X-Plan: gold}}}]\n")
	password := writeFile(t, filepath.Join(folder, "password"), "another secret\n")
	lines := writeFile(t, filepath.Join(folder, "lines"), "a secret\nand another\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no number":                {[]string{"--max-keys", "many"}, "--max-keys: \"many\" is not a valid whole number"},
		"no share":                 {[]string{"--near-limit", "150%"}, "near-limit: "},
		"no duration":              {[]string{"--drain-delay", "1"}, "--drain-delay: \"1\" is not a valid duration (write it as 1s)"},
		"no duration, nor off":     {[]string{"--lease-time", "never"}, "--lease-time: \"never\" is not a valid duration (write it as 1s, or off)"},
		"consistency of Envoy":     {[]string{"--envoy-config", ".", "--envoy-consistency", "lease"}, `envoy-consistency: "lease" is not known (use strict, leased or partitioned)`},
		"consistency of nothing":   {[]string{"--envoy-consistency", "leased"}, "envoy-consistency: Envoy's rate limit service has no configuration (give --envoy-config DIR)"},
		"lease time below 10ms":    {[]string{"--lease-time", "9ms"}, "lease-time: 9ms is out of range (use 10ms to 10s, or off)"},
		"lease time below 0":       {[]string{"--lease-time", "-1s"}, "lease-time: -1s is out of range (use 10ms to 10s, or off)"},
		"no truth value":           {[]string{"--pprof=maybe"}, "--pprof: \"maybe\" is not a valid truth value (use true or false)"},
		"unknown flag":             {[]string{"--htp", "off"}, "--htp is not a flag (did you mean --http?)"},
		"an argument":              {[]string{"rules.yaml"}, `takes no arguments, got "rules.yaml"`},
		"rules with mistakes":      {[]string{"--rules", bad}, "bad.yaml:3:"},
		"rules that are not there": {[]string{"--rules", filepath.Join(folder, "none.yaml")}, "none.yaml"},
		"rules elsewhere":          {[]string{"--rules", "etcd://u:secret@h/0"}, "rules: etcd:// is not a source of rules"},
		"rules in a wrong place":   {[]string{"--rules", "redis://u:secret@h/zero"}, "rules: store URL: the database is not a number"},
		"rules of a wrong table":   {[]string{"--rules", "postgres://u:secret@h/db", "--key-prefix", "a b"}, "key-prefix: must be"},
		"a password for files":     {[]string{"--rules-password-file", "none"}, "rules-password-file: is for rules in Redis or PostgreSQL"},
		"another store":            {[]string{"--store", "mysql://u:secret@h/0"}, "store: mysql:// is not a store of this version (use memory, or redis://"},
		"unknown store":            {[]string{"--store", "memry"}, "use memory"},
		"store in a socket's host": {[]string{"--store", "redis+unix://u:secret@run/redis.sock"}, "write its path behind three slashes, redis+unix:///run/redis.sock"},
		"store without a host":     {[]string{"--store", "redis://u:secret@/0"}, "store URL: address 1 is not host:port"},
		"store of no scheme":       {[]string{"--store", "redis-clutser://u:secret@h"}, "redis-cluster://"},
		"sentinels without master": {[]string{"--store", "redis-sentinel://u:secret@h"}, "the name of the master is missing"},
		"two passwords":            {[]string{"--store", "redis://u:secret@h/0", "--store-password-file", password}, "remove it from the URL"},
		"no password file":         {[]string{"--store", "redis://h/0", "--store-password-file", filepath.Join(folder, "none")}, "store-password-file: "},
		"empty password file":      {[]string{"--store", "redis://h/0", "--store-password-file", empty}, "is empty (write the password into it)"},
		"prefix that picks a slot": {[]string{"--store", "redis://h/0", "--key-prefix", "{a}"}, "brace"},
		"no clock":                 {[]string{"--store", "redis://h/0", "--store-clock", "moon"}, "store-clock: "},
		"no clock of the node":     {[]string{"--clock", "moon"}, `clock: "moon" is not a clock (use auto or kernel)`},
		"no time for the store":    {[]string{"--store-deadline", "0s"}, "store-deadline: "},
		"slow before it began":     {[]string{"--store-slow", "-1ms"}, "store-slow: "},
		"resp":                     {[]string{"--resp", "6379"}, `resp: "6379" is not an address`},
		"envoy files":              {[]string{"--envoy-config", folder}, "envoy-config: "},
		"envoy files missing":      {[]string{"--envoy-config", filepath.Join(folder, "none")}, "no such file"},
		"envoy's way of counting":  {[]string{"--envoy-compat"}, "RUNTIME_ROOT"},
		"envoy headers alone":      {[]string{"--envoy-headers"}, "--envoy-config DIR"},
		"envoy files unserved":     {[]string{"--envoy-config", folder, "--grpc", "off", "--http", "off"}, "which are both off"},
		"no address":               {[]string{"--http", "8080"}, `http: "8080" is not an address`},
		"no port":                  {[]string{"--grpc", "localhost:nowhere"}, "grpc: "},
		"gateway without upstream": {[]string{"--gateway", ":0"}, "--upstream"},
		"upstream without gateway": {[]string{"--upstream", "http://h"}, "--gateway"},
		"upstream without host":    {[]string{"--gateway", ":0", "--upstream", "/x"}, "upstream: "},
		"routes without gateway":   {[]string{"--gateway-config", routes}, "gateway-config: is for the gateway, which is off (give --gateway ADDR)"},
		"upstreams twice":          {[]string{"--gateway", ":0", "--gateway-config", routes, "--upstream", "http://h"}, "upstream: --gateway-config names the upstreams too"},
		"routes missing":           {[]string{"--gateway", ":0", "--gateway-config", filepath.Join(folder, "none")}, "gateway-config: open "},
		"routes with a mistake":    {[]string{"--gateway", ":0", "--gateway-config", wrongRoutes}, ":2:21: there is no upstream \"b\" (use one of a)"},
		"routes change identity":   {[]string{"--gateway", ":0", "--gateway-config", plans, "--identity", "header:X-Plan"}, "gateway-config: gateway: route \"/\": request_headers: x-plan identifies the client"},
		"upstream of no protocol":  {[]string{"--gateway", ":0", "--upstream", "ftp://h"}, "upstream: "},
		"shedding without gateway": {[]string{"--gateway-adapt", "aimd"}, "give --gateway ADDR"},
		"shedding by magic":        {[]string{"--gateway", ":0", "--upstream", "http://h", "--gateway-adapt", "magic"}, "use gradient, aimd or off"},
		"a bound on nothing":       {[]string{"--gateway", ":0", "--upstream", "http://h", "--gateway-max", "5"}, "give --gateway-adapt gradient or aimd"},
		"too slow for nothing":     {[]string{"--gateway", ":0", "--upstream", "http://h", "--gateway-adapt", "gradient", "--gateway-slow", "2s"}, "give --gateway-adapt aimd"},
		"no room in the gateway":   {[]string{"--gateway-max", "0"}, "gateway-max: 0"},
		"nothing is too slow":      {[]string{"--gateway-slow", "0s"}, "gateway-slow: "},
		"open admin":               {[]string{"--admin", ":6070"}, "--admin-token-file"},
		"no network":               {[]string{"--trusted-proxies", "10.0.0.0/33"}, "trusted-proxies: "},
		"no token file":            {[]string{"--http-token-file", filepath.Join(folder, "none")}, "http-token-file: "},
		"empty token file":         {[]string{"--http-token-file", empty}, "is empty (write the token into it)"},
		"a token file of no name":  {[]string{"--http-token-file", ""}, "http-token-file: is given, and empty"},
		"a claim without keys":     {[]string{"--identity", "jwt:sub,bearer"}, "identity: jwt:sub is a claim, and no key verifies tokens (give --jwt-keys"},
		"an unknown source":        {[]string{"--identity", "bearer,heder:X-Key"}, `identity: "heder:X-Key" is no source of an identity (did you mean "header:X-Key"`},
		"no source":                {[]string{"--identity", ""}, "identity: is given, and empty"},
		"rejected without keys":    {[]string{"--jwt-invalid", "reject"}, "jwt-invalid: no key verifies tokens"},
		"an issuer without keys":   {[]string{"--jwt-issuer", "us"}, "jwt-issuer: no key verifies tokens"},
		"keys of no name":          {[]string{"--jwt-keys", ""}, "jwt-keys: is given, and empty"},
		"no keys of tokens":        {[]string{"--jwt-keys", filepath.Join(folder, "none")}, "jwt-keys: "},
		"empty keys of tokens":     {[]string{"--jwt-keys", empty}, "jwt-keys: "},
		"keys in the clear":        {[]string{"--jwt-keys", "http://keys.example/jwks"}, "use https"},
		"an unknown algorithm":     {[]string{"--jwt-keys", "https://127.0.0.1:1/", "--jwt-algorithms", "RS1"}, `jwt-algorithms: algorithm "RS1" is unknown`},
		"no algorithm":             {[]string{"--jwt-keys", "https://127.0.0.1:1/", "--jwt-algorithms", "none"}, `jwt-algorithms: algorithm "none" is unknown`},
		"a claim as a token":       {[]string{"--jwt-keys", "https://127.0.0.1:1/", "--jwt-from", "jwt:x"}, "jwt-from: jwt:x is a claim"},
		"a token of two lines":     {[]string{"--http-token-file", lines}, "several lines"},
		"certificate alone":        {[]string{"--tls-cert", empty}, "tls-key"},
		"no certificate":           {[]string{"--tls-cert", empty, "--tls-key", empty}, "tls-cert: "},
		"authority alone":          {[]string{"--client-ca", empty}, "client-ca: "},
		"negative nodes":           {[]string{"--nodes", "-1"}, "nodes: -1"},
		"no keys":                  {[]string{"--max-keys", "0"}, "max-keys: 0"},
		"less than no callers":     {[]string{"--max-caller-keys", "-1"}, "max-caller-keys: -1"},
		"log format":               {[]string{"--log-format", "xml"}, "log-format: "},
		"log level":                {[]string{"--log-level", "loud"}, "log-level: "},
		"endless drain":            {[]string{"--drain-delay", "1h"}, "drain-delay: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, nil, append([]string{"serve"}, c.args...)...)
			if got.status != exitUsage || !strings.Contains(got.errors, c.want) {
				t.Errorf("status %d, %q\nwant %d with %q", got.status, got.errors, exitUsage, c.want)
			}
			if strings.Contains(got.errors, "secret") || got.out != "" {
				t.Errorf("%q, %q", got.errors, got.out)
			}
		})
	}
}

// An editor finds the place of a mistake at the beginning of a line, also of one that only a
// server finds.
func TestMistakesOfRulesBeginWithTheirPlace(t *testing.T) {
	for name, text := range map[string]string{
		"of the file":   "rules: [{id: a, limit: 1/s, windw: 60}]\n",
		"of the server": "rules: [{id: a, limit: 1/s}]\nidentity: ['jwt:sub']\n",
		"of the id":     "rules: [{id: emergency, limit: 1/s}]\n",
		"of the store":  "rules: [{id: a, limit: 1/s, store: other}]\n",
	} {
		file := writeFile(t, filepath.Join(t.TempDir(), "r.yaml"), text)
		got := command(t, nil, "serve", "--rules", file)
		if got.status != exitUsage || !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(file)+`:\d+:\d+: `).MatchString(got.errors) {
			t.Errorf("%s: status %d, %q", name, got.status, got.errors)
		}
	}
}

func TestEveryMistakeOfRulesIsPrinted(t *testing.T) {
	bad := writeFile(t, filepath.Join(t.TempDir(), "bad.yaml"), "rules:\n  - {id: a, limit: 1, windw: 60}\n  - {id: b, limitt: 1}\n")
	got := command(t, nil, "serve", "--rules", bad)
	for _, place := range []string{"bad.yaml:2:", "bad.yaml:3:"} {
		if !strings.Contains(got.errors, place) {
			t.Errorf("%q lacks %s", got.errors, place)
		}
	}
}

func TestTakenPortExitsWithFailed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	got := command(t, nil, "serve", "--http", taken.Addr().String(), "--grpc", "off", "--admin", "off")
	if got.status != exitFailed || !strings.Contains(got.errors, "http: listen tcp "+taken.Addr().String()) || !strings.Contains(got.errors, "give --http another address") {
		t.Errorf("status %d, %q", got.status, got.errors)
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for _, words := range [][]string{{}, {"serve"}, {"rules"}, {"rules", "validate"}, {"replay"}, {"check"}, {"version"}} {
		got := command(t, nil, append(words, "--help")...)
		if got.status != exitDone || !strings.Contains(got.out, "Examples:") {
			t.Errorf("%v: status %d, %q", words, got.status, got.out)
		}
	}
}

func TestUnknownCommandIsWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"sevre", "did you mean serve?"}, {"rules valdate", "did you mean validate?"}, {"frobnicate", "--help"},
		{"help sevre", "did you mean serve?"}, {"help rules frobnicate", "stint rules: "}, {"help version x", "stint version: "},
	} {
		got := command(t, nil, strings.Fields(c.args)...)
		if got.status != exitUsage || !strings.Contains(got.errors, c.want) {
			t.Errorf("%s: status %d, %q", c.args, got.status, got.errors)
		}
	}
}

func TestMaxKeysBoundsTheStore(t *testing.T) {
	p := startServer(t, nil, "--max-keys", "1000")
	for i := range 3 {
		var items bytes.Buffer
		for j := range 1000 {
			if j > 0 {
				items.WriteByte(',')
			}
			_, _ = fmt.Fprintf(&items, `{"attributes":{"api_key":"k%d","path":"/"}}`, 1000*i+j)
		}
		post(t, p, "/v1/batch", `{"items":[`+items.String()+`]}`)
	}
	p.wait("store full")
}

func TestMaxCallerKeysBoundsWhatCallersBring(t *testing.T) {
	p := startServer(t, nil, "--max-keys", "2000000", "--max-caller-keys", "500")
	for i := range 200 {
		var limits bytes.Buffer
		for j := range 32 {
			if j > 0 {
				limits.WriteByte(',')
			}
			_, _ = io.WriteString(&limits, `{"name":"n`+string(rune('a'+j%26))+string(rune('a'+j/26))+`","limit":10,"window":"1h"}`)
		}
		post(t, p, "/v1/take", `{"key":"k`+string(rune('a'+i%26))+string(rune('a'+i/26))+`","limits":[`+limits.String()+`]}`)
	}
	p.wait("the share of limits that callers bring is full")
}

func ruleThatDecides(t *testing.T, p *process) string {
	t.Helper()
	got := post(t, p, "/v1/check", `{"attributes":{"api_key":"k","path":"/"}}`)
	_, rest, _ := strings.Cut(got, `"rule":"`)
	rule, _, _ := strings.Cut(rest, `"`)
	return rule
}

func get(t *testing.T, p *process, path string) (int, string) {
	t.Helper()
	return do(t, http.MethodGet, "http://"+p.addr("http")+path, "")
}

func post(t *testing.T, p *process, path, body string) string {
	t.Helper()
	status, answer := do(t, http.MethodPost, "http://"+p.addr("http")+path, body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	return answer
}

func do(t *testing.T, method, target, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// wire is a raw connection.
type wire struct {
	t    *testing.T
	conn net.Conn
}

func dial(t *testing.T, addr string) wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return wire{t, conn}
}

func (w wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.conn, text); err != nil {
		w.t.Fatal(err)
	}
}

func (w wire) readAll() string {
	w.t.Helper()
	got, err := io.ReadAll(w.conn)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(got)
}

func TestSharesAreParsed(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "100%": 1, "off": 0, "0.5 %": 0.005} {
		if got, err := parseShare("f", text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "101%", "-1%", "NaN", "much", "%"} {
		if got, err := parseShare("f", text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestTheOperatorsCollectorHasNoFloor(t *testing.T) {
	for variable, want := range map[string]int{"": heapFloor, "STINT_HTTP": heapFloor, "GOGC": 0, "GOMEMLIMIT": 0} {
		if got := len(newHeapFloor(func(name string) (string, bool) { return "50", name == variable })); got != want {
			t.Errorf("with %q there is a floor of %d bytes, want %d", variable, got, want)
		}
	}
}
