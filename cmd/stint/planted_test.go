package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/go-jose/go-jose/v4"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/internal/redistest"
)

// plantedRules count by every place in which a key may be, and cause penalties, hot keys,
// denials and requests near a limit.
const plantedRules = `
tiers:
  live: {api_key_pattern: "sk_live_*", limit: 3, window: 1h}
rules:
  - {id: tiered, tier: live, match: {path_prefix: /}, by: [api_key], penalty: {after: 2, window: 1m, cool_down: 1s, ban_after: 1, ban: 1h}}
  - {id: tenants, match: {path_prefix: /}, by: ["header:x-tenant"], missing: skip, limit: 3, window: 1h}
  - {id: paths, match: {path_prefix: /}, by: [path], limit: 3, window: 1h, mode: shadow}
  - {id: busy, match: {path: /busy}, by: [api_key], limit: 10000, window: 1h, penalty: {hot_key: 1m}}
`

const plantedEnvoy = "domain: planted\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}\n"

// Outputs may show the first 8 characters of a key: its shortened form. A further part of at
// least 10 characters is a leak.
const (
	shownOfKey = 8
	leastLeak  = 10
)

// garden is a server with every output switched on, and the keys that callers send to it.
type garden struct {
	*administered

	collector *collector
	redis     *redistest.Process
	datagrams net.PacketConn
	upstream  *httptest.Server
	issuer    *issued
	token     string // required by --http and --grpc; or empty
	conn      *grpc.ClientConn
	secrets   map[string]string // the key of each place, and parts of tokens
	replies   strings.Builder   // answers to the callers
}

// TestNoOutputShowsAPlantedKey sends a key of its own in each place of a request, through
// every surface, also in requests that fail, and then reads every output for readers below
// the role admin.
func TestNoOutputShowsAPlantedKey(t *testing.T) {
	for name, c := range map[string]struct {
		identity string
		token    bool
	}{
		"tokens as text":    {"bearer,header:X-API-Key,query:api_key,cookie:session", false},
		"a claim of tokens": {"jwt:sub,header:X-API-Key,query:api_key,cookie:session", false},
		"behind a token":    {"query:api_key,cookie:session,header:X-API-Key", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGarden(t, c.identity, c.token)
			g.send()
			g.sendMistakes()
			g.operate()
			g.makeHot()
			g.readAdmin("viewer")
			g.readAdmin("operator")
			g.runRunbooks()
			g.redis.Kill()
			g.upstream.Close()
			g.send()
			g.end()
		})
	}
}

func startGarden(t *testing.T, identity string, withToken bool) *garden {
	t.Helper()
	g := &garden{redis: redistest.Server(t), issuer: newIssued(t, "1"), secrets: map[string]string{}, upstream: plantedUpstream(t)}
	folder := t.TempDir()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	collector, target := startCollector(t, true)
	g.collector, g.datagrams = collector, socket
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: g.issuer.key.Public(), KeyID: g.issuer.id, Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string { return writeFile(t, filepath.Join(folder, name), text) }
	if err := os.Mkdir(filepath.Join(folder, "envoy"), 0o750); err != nil {
		t.Fatal(err)
	}
	file("envoy/planted.yaml", plantedEnvoy)
	decisions := filepath.Join(folder, "decisions.jsonl")
	if withToken {
		decisions = "otlp"
	}
	args := []string{
		"--rules", file("rules.yaml", plantedRules), "--store", "redis://" + g.redis.Addr(), "--store-deadline", "1s",
		"--gateway", "127.0.0.1:0", "--upstream", g.upstream.URL, "--resp", "127.0.0.1:0", "--trusted-proxies", "127.0.0.0/8",
		"--identity", identity,
		"--envoy-config", filepath.Join(folder, "envoy"), "--otlp", target, "--statsd", socket.LocalAddr().String(),
		"--decision-log", decisions, "--decision-log-sample", "100%", "--decision-log-rate", "100000",
		"--hot-key-rate", "20", "--log-level", "debug", "--native-histograms", "--admin-tokens-file", file("tokens", tokensOfRoles()),
	}
	if strings.Contains(identity, "jwt") {
		args = append(args, "--jwt-invalid", "reject", "--jwt-keys", file("keys.json", string(keys)))
	}
	if withToken {
		g.token = g.plant("the server's own token")
		args = append(args, "--http-token-file", file("token", g.token))
	}
	p := startServer(t, quick("OTEL_TRACES_SAMPLER=always_on"), args...)
	g.administered = &administered{p, []string{"STINT_SERVER=http://" + p.addr("admin")}, folder}
	g.conn, err = grpc.NewClient(p.addr("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.conn.Close() })
	return g
}

// tokensOfRoles is a file with a token for each role, whose text is the role's name.
func tokensOfRoles() (text string) {
	for _, role := range []string{"viewer", "operator", "admin"} {
		sum := sha256.Sum256([]byte(role))
		text += fmt.Sprintln(role, role, hex.EncodeToString(sum[:]))
	}
	return text
}

// plantedUpstream answers, answers nonsense to /garbage, and closes connections of /closes.
func plantedUpstream(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/garbage") && !strings.HasPrefix(r.URL.Path, "/closes") {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/garbage") {
			_, _ = fmt.Fprintf(conn, "garbage %s %s\r\n\r\n", r.URL, r.Header)
		}
		conn.Close()
	}))
	t.Cleanup(s.Close)
	return s
}

// plant returns the key that is sent in one place alone.
func (g *garden) plant(place string) string {
	if g.secrets[place] == "" {
		g.secrets[place] = "sk_live_" + rand.Text()
	}
	return g.secrets[place]
}

// jwt returns a token whose subject is planted. Its payload and its signature are secrets, too.
func (g *garden) jwt(place string) string {
	token := g.issuer.token(g.t, g.plant("the claim of "+place))
	parts := strings.Split(token, ".")
	g.secrets["the payload of "+place], g.secrets["the signature of "+place] = parts[1], parts[2]
	return token
}

// leaks names the places whose keys a text shows, plain or percent-encoded.
func (g *garden) leaks(text string) []string {
	decoded := text
	for range 2 {
		decoded = percentCode.ReplaceAllStringFunc(decoded, func(code string) string {
			b, _ := hex.DecodeString(code[1:]) // the pattern ensures two digits
			return string(b)
		})
	}
	text = strings.ToUpper(text + "\n" + decoded)
	places := map[string]string{}
	parts := map[string]string{} // of keys, to their places
	for place, key := range g.secrets {
		for i := shownOfKey; i+leastLeak <= len(key); i++ {
			parts[strings.ToUpper(key[i:i+leastLeak])] = place
		}
	}
	for i := range len(text) - leastLeak + 1 {
		if place, leaked := parts[text[i:i+leastLeak]]; leaked && places[place] == "" {
			places[place] = fmt.Sprintf("%s: %q", place, text[max(0, i-200):min(len(text), i+50)])
		}
	}
	return slices.Sorted(maps.Values(places))
}

var percentCode = regexp.MustCompile("%[0-9A-Fa-f]{2}")

func (g *garden) wantNoKey(output, text string) {
	g.t.Helper()
	if places := g.leaks(text); places != nil {
		g.t.Errorf("%s shows the key in\n\t%s", output, strings.Join(places, "\n\t"))
	}
	if text == "" {
		g.t.Errorf("%s is empty", output)
	}
}

// request sends an HTTP request with the given fields: names and values in turn.
func (g *garden) request(listener, method, target, body string, fields ...string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.addr(listener)+target, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if g.token != "" && listener == "http" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	fmt.Fprintln(&g.replies, answer.Status, answer.Header, string(text))
}

// send sends each key five times: with limits of 3 an hour, some requests are denied.
func (g *garden) send() {
	for range 5 {
		for _, listener := range []string{"gateway", "http"} {
			prefix := ""
			if listener == "http" {
				prefix = "/v1/auth"
			}
			g.sendHTTP(listener, prefix)
		}
		g.sendChecks()
		g.sendGRPC()
		g.sendRESP()
	}
}

// sendHTTP sends requests whose attributes are in an HTTP request: to the gateway, or to
// forward auth.
func (g *garden) sendHTTP(listener, prefix string) {
	get := func(target string, fields ...string) {
		g.request(listener, http.MethodGet, prefix+target, "", fields...)
	}
	at := func(place string) string { return g.plant(place + " of " + listener) }
	if g.token == "" || listener == "gateway" {
		get("/a", "Authorization", "Bearer "+at("the bearer token"))
		get("/a", "Authorization", "Bearer "+g.jwt("a token of "+listener))
		get("/a", "Authorization", "Bearer "+g.jwt("a token of "+listener)+"x")
		get("/a", "Authorization", at("another scheme")+" x")
	}
	get("/a", "X-API-Key", at("X-API-Key"))
	get("/a", "X-API-Key", at("the first of two fields"), "X-API-Key", at("the second of two fields"))
	get("/a", "X-Tenant", at("another field"))
	get("/a", "X-Request-Id", at("X-Request-Id"), "Idempotency-Key", at("Idempotency-Key"), "Baggage", "key="+at("Baggage"))
	get("/a", "Cookie", "session="+at("a cookie"))
	get("/a?api_key=" + at("the query"))
	get("/a?api_key=%73k_live_" + at("the encoded query")[len("sk_live_"):])
	get("/a?api_key=" + at("the twice given query") + "&api_key=x")
	get("/orders/" + at("the path") + "/x")
	get("/orders/%73k%5Flive%5f" + at("the encoded path")[len("sk_live_"):])
	get("/orders/%2573k_live_" + at("the twice encoded path")[len("sk_live_"):])
	get("/orders/id;token=" + at("a parameter of the path"))
	get("/orders/token=" + at("a part of a segment"))
	get("/orders/"+at("both path and field"), "X-API-Key", at("both path and field"))
	get("/garbage/" + at("a path that is answered by nonsense") + "?api_key=" + at("a query that is answered by nonsense"))
	get("/closes/" + at("a path that is not answered") + "?api_key=" + at("a query that is not answered"))
	g.request(listener, http.MethodPost, prefix+"/a", "x", "Expect", at("Expect"))
	g.request(listener, http.MethodGet, prefix+"/a", "", "Upgrade", at("Upgrade"), "Connection", "Upgrade")
	g.request(listener, http.MethodGet, prefix+"/a", "", "Referer", "http://h/?key="+at("Referer"))
	if listener == "http" {
		get("", "X-Original-URI", "/a/"+at("X-Original-URI")+"?api_key="+at("the query of X-Original-URI"))
		get("", "X-Forwarded-Uri", "/a/"+at("X-Forwarded-Uri"), "X-Forwarded-Method", at("X-Forwarded-Method"))
		get("", "X-Original-URI", "http://"+at("a wrong X-Original-URI")+":x")
	}
}

// sendChecks calls the endpoints whose attributes are in a body of JSON.
func (g *garden) sendChecks() {
	post := func(path, body string, fields ...string) { g.request("http", http.MethodPost, path, body, fields...) }
	post("/v1/check?api_key="+g.plant("the query of a check"), fmt.Sprintf(`{"request_id":%q,"attributes":{"api_key":%q,"path":%q,"header:x-tenant":%q,"query":%q,"host":%q}}`,
		g.plant("request_id"), g.plant("api_key"), "/a/"+g.plant("attribute path"), g.plant("attribute header"), g.plant("attribute query"), g.plant("both key and host")))
	post("/v1/check", fmt.Sprintf(`{"attributes":{"api_key":%q,"method":%q,"ip":%q}}`, g.plant("both key and host"), g.plant("attribute method"), g.plant("attribute ip")))
	post("/v1/take", fmt.Sprintf(`{"key":%q,"request_id":%q,"limit":{"limit":3,"window":"1h","name":"%.20s"}}`, g.plant("the key of a take"), g.plant("request_id of a take"), "n"+g.plant("the name of a limit")[8:]),
		"Idempotency-Key", g.plant("Idempotency-Key of a take"))
	post("/v1/take", fmt.Sprintf(`{"key":%q,"limit":"3/h"}`, g.plant("the key of a short take")))
	post("/v1/batch", fmt.Sprintf(`{"items":[{"attributes":{"api_key":%q}},{"key":%q,"limit":"1/h"}]}`, g.plant("api_key of a batch"), g.plant("the key of a batch")))
	post("/json", fmt.Sprintf(`{"domain":"planted","descriptors":[{"entries":[{"key":"user","value":%q}]}]}`, g.plant("a descriptor of JSON")))
}

func (g *garden) sendGRPC() {
	ctx := metadata.AppendToOutgoingContext(g.t.Context(), "x-api-key", g.plant("metadata"), "idempotency-key", g.plant("idempotency-key of gRPC"))
	native, envoy, auth := stintv1.NewLimiterServiceClient(g.conn), ratelimitpb.NewRateLimitServiceClient(g.conn), authpb.NewAuthorizationClient(g.conn)
	wrong := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.plant("a wrong token of gRPC"))
	if g.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.token)
	}
	for _, ctx := range []context.Context{ctx, wrong} {
		g.called(native.Check(ctx, &stintv1.CheckRequest{RequestId: g.plant("request_id of gRPC"), Attributes: map[string]string{"api_key": g.plant("api_key of gRPC"), "path": "/a/" + g.plant("the path of gRPC")}}))
		g.called(native.Take(ctx, &stintv1.TakeRequest{Key: g.plant("a take of gRPC"), Limits: []*stintv1.Limit{{Name: g.plant("a name of gRPC")}}}))
		g.called(envoy.ShouldRateLimit(ctx, &ratelimitpb.RateLimitRequest{Domain: "planted", Descriptors: []*commonpb.RateLimitDescriptor{{
			Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: g.plant("a descriptor")}},
		}}}))
		g.called(envoy.ShouldRateLimit(ctx, &ratelimitpb.RateLimitRequest{Domain: g.plant("a domain"), Descriptors: []*commonpb.RateLimitDescriptor{{
			Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: g.plant("the key of a descriptor"), Value: ""}},
		}}}))
		g.called(auth.Check(ctx, &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
			Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{Address: "192.0.2.1"}}}},
			Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
				Id: g.plant("an id of Envoy"), Method: "GET", Path: "/a/" + g.plant("a path of Envoy") + "?api_key=" + g.plant("a query of Envoy"),
				Headers: map[string]string{"x-api-key": g.plant("a header of Envoy"), "x-request-id": g.plant("a request id of Envoy"), "cookie": "session=" + g.plant("a cookie of Envoy")},
			}},
		}}))
	}
}

func (g *garden) called(answer fmt.Stringer, err error) {
	fmt.Fprintln(&g.replies, answer, err)
}

func (g *garden) sendRESP() {
	w := dial(g.t, g.addr("resp"))
	if g.token != "" {
		w.send("AUTH " + g.token + "\r\n")
	}
	w.send("CL.THROTTLE " + g.plant("a key of RESP") + " 2 1 3600\r\n" +
		"CL.THROTTLE x " + g.plant("a number of RESP") + " 1 3600\r\n" +
		g.plant("a command of RESP") + " x\r\n" +
		"CLIENT SETNAME " + g.plant("a name of RESP") + "\r\n" +
		"HELLO 3 AUTH default " + g.plant("a password of HELLO") + "\r\n" +
		"AUTH " + g.plant("a user of RESP") + " " + g.plant("a password of a user") + "\r\n" +
		"AUTH " + g.plant("a password of RESP") + "\r\nQUIT\r\n")
	fmt.Fprintln(&g.replies, w.readAll())
}

// sendMistakes sends requests that are refused, with keys in what the answers may quote.
func (g *garden) sendMistakes() {
	quoted := func(place string) string { return fmt.Sprintf("%q", g.plant(place)) }
	for path, bodies := range map[string][]string{
		"/v1/check": {
			"{" + quoted("an unknown member") + ":1}", `{"attributes":` + quoted("attributes that are text") + `}`,
			`{"attributes":{"api_key":` + g.plant("a key without quotes") + `}}`, g.plant("a body that is no JSON"), `{"attributes":{"api_key":"` + g.plant("a key without an end"),
			`{"attributes":{},"cost":` + quoted("a cost") + `}`, `{"attributes":{"api_key":[` + quoted("a list") + `]}}`,
			`{"attributes":{},"request_id":"` + g.plant("a wrong request_id") + ` é"}`, `{"attributes":{"x":"1",` + quoted("an attribute that is twice there") + `:"1",` + quoted("an attribute that is twice there") + `:"1"}}`,
		},
		"/v1/take": {
			`{"key":"k","limit":` + quoted("a limit") + `}`, `{"key":"k","limit":{"algorithm":` + quoted("an algorithm") + `,"limit":1,"window":"1h"}}`,
			`{"key":"k","limit":{"limit":1,"window":` + quoted("a window") + `}}`, `{"key":"k","limit":{"limit":1,"window":"1h",` + quoted("a member of a limit") + `:1}}`,
			`{"key":"k","limit":{"limit":1,"window":"1h","name":` + quoted("a wrong name of a limit") + `}}`,
			`{"key":` + quoted("a key with a wrong cost") + `,"limit":"1/h","cost":-1}`, `{"key":` + quoted("a key that is too long")[:20] + strings.Repeat(g.plant("a key that is too long"), 100) + `","limit":"1/h"}`,
		},
		"/json":                              {`{"domain":` + quoted("an unknown domain") + `}`, `{"domain":1,` + quoted("an unknown member for Envoy") + `:1}`},
		"/" + g.plant("an unknown endpoint"): {"{}"},
	} {
		for _, body := range bodies {
			g.request("http", http.MethodPost, path, body)
		}
	}
	for _, listener := range []string{"http", "gateway", "admin"} {
		for _, text := range []string{
			"GET /" + g.plant("a malformed request line of "+listener) + " x HTTP/1.1\r\n\r\n",
			g.plant("a first word of "+listener) + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\n" + g.plant("a field without a colon of "+listener) + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: " + g.plant("a length of "+listener) + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: " + g.plant("a host of "+listener) + "@\r\nConnection: close\r\n\r\n",
			"GET /%zz" + g.plant("a wrong escape of "+listener) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nX-API-Key: " + g.plant("a field with a wrong byte of "+listener) + "\x01\r\nConnection: close\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + g.plant("a chunk of "+listener) + "\r\n\r\n",
		} {
			w := dial(g.t, g.addr(listener))
			w.send(text)
			_ = w.conn.(*net.TCPConn).CloseWrite()
			answer, _ := io.ReadAll(w.conn) // an error: the server closes the connection early
			fmt.Fprintln(&g.replies, string(answer))
		}
	}
	g.request("admin", http.MethodGet, "/metrics?x="+g.plant("a query of admin"), "", "Authorization", "Bearer "+g.plant("a wrong token of admin"))
}

// operate changes the states of keys, with the token of an admin, and with mistakes.
func (g *garden) operate() {
	for path, body := range map[string]string{
		"/v1/peek":  `{"rule":"*","key":%q}`,
		"/v1/reset": `{"rule":"*","key":%q}`,
		"/v1/grant": `{"rule":"tenants","units":1,"attributes":{"header:x-tenant":%q}}`,
	} {
		for _, token := range []string{"admin", "viewer"} {
			g.request("admin", http.MethodPost, path, fmt.Sprintf(body, g.plant("X-API-Key of gateway")), "Authorization", "Bearer "+token)
		}
	}
	g.request("admin", http.MethodPost, "/v1/reset", `{"rule":"`+g.plant("a rule to reset")+`","key":"k"}`, "Authorization", "Bearer admin")
	g.request("admin", http.MethodPost, "/v1/reset", `{"limit":"`+g.plant("a limit to reset")+`","key":"k"}`, "Authorization", "Bearer admin")
}

// makeHot makes a key hot, and waits until the log says so.
func (g *garden) makeHot() {
	eventually(g.t, "no hot key is logged", func() bool {
		for range 30 {
			g.request("gateway", http.MethodGet, "/busy", "", "X-API-Key", g.plant("a hot key"))
		}
		return strings.Contains(strings.Join(g.logged(), "\n"), `msg="hot key"`)
	})
}

// readAdmin reads everything that the admin API shows to a role.
func (g *garden) readAdmin(role string) {
	g.t.Helper()
	ask := func(path, accept string) string {
		ctx, stop := context.WithTimeout(g.t.Context(), 2*time.Second) // some answers have no end
		defer stop()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.addr("admin")+path, nil)
		if err != nil {
			g.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+role)
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			g.t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body) // what there is within the time
		want := http.StatusOK
		if path == "/v1/sample" { // the rules are in a file, so the server shares no secret
			want = http.StatusConflict
		}
		if answer.StatusCode != want {
			g.t.Errorf("%s: status %d: %s", path, answer.StatusCode, text)
		}
		g.wantNoKey(path+" for "+role, string(text))
		return string(text)
	}
	ask("/metrics", "text/plain")
	ask("/metrics", "application/openmetrics-text")
	ask("/metrics", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	var description struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal([]byte(ask("/openapi.yaml", "*/*")), &description); err != nil {
		g.t.Fatal(err)
	}
	asked := 0
	for path, methods := range description.Paths {
		if path = strings.NewReplacer("{id}", "tiered", "{tier}", "live", "{version}", "1").Replace(path); methods["get"] == nil {
			continue
		}
		if path == "/rules/diff" {
			path += "?from=0&to=1"
		}
		ask(path, "*/*")
		asked++
	}
	if asked < 10 {
		g.t.Errorf("%d endpoints", asked)
	}
	for _, query := range []string{"by=denied", "by=allowed", "by=denied&window=1h", "by=allowed&rule=tenants&limit=3000"} {
		if text := ask("/v1/top?"+query, "*/*"); !strings.Contains(text, "sk_live_") {
			g.t.Errorf("the top keys have none of the keys: %s", text)
		}
	}
}

// runbookCommand is a command in the pages of alerts.
var runbookCommand = regexp.MustCompile("`stint ([^`]+)`")

// runRunbooks runs every command that the pages of alerts name, with the token of a viewer.
func (g *garden) runRunbooks() {
	g.t.Helper()
	g.env = append(g.env, "STINT_TOKEN=viewer")
	placeholders := strings.NewReplacer("VERSION", "1", "FILE", g.file("stricter.yaml", strings.ReplaceAll(plantedRules, "limit: 3,", "limit: 1,")), "RULE", "tiered", "KEY", g.plant("the key of a command"))
	ran := 0
	for _, page := range files(g.t, "docs/runbooks/*.md") {
		for _, m := range runbookCommand.FindAllStringSubmatch(contentOf(g.t, page), -1) {
			args := strings.Fields(placeholders.Replace(m[1]))
			if slices.Contains(args, "explain") { // asks no server, and explains what the user types
				args = append(args, "--rules", filepath.Join(g.folder, "rules.yaml"), "--attributes", `{"path":"/a"}`)
			}
			for _, format := range [][]string{nil, {"--json"}} {
				got := command(g.t, g.env, append(slices.Clip(args), format...)...)
				g.wantNoKey("stint "+m[1], got.out+got.errors)
				ran++
			}
		}
	}
	if ran < 30 {
		g.t.Errorf("%d commands", ran)
	}
}

// repeated are the places that an answer repeats to the sender: paths and request ids, and what
// is wrong in a request, which is never a member that holds a key.
var repeated = regexp.MustCompile(`path|-U[Rr][Ii]|X-Request-Id|name of|^(an unknown (member|endpoint)|an? (cost|limit|algorithm|window|member of a limit)|a (command|number) of RESP|an attribute that is twice there|a (rule|limit) to reset)`)

// end ends the server, and reads what it sent and wrote.
func (g *garden) end() {
	g.t.Helper()
	datagrams := make(chan string)
	go func() {
		var all strings.Builder
		for packet := make([]byte, 64<<10); ; {
			n, _, err := g.datagrams.ReadFrom(packet)
			if err != nil {
				datagrams <- all.String()
				return
			}
			all.Write(packet[:n])
		}
	}()
	g.signal(syscall.SIGTERM)
	if status := g.exit(); status != exitDone {
		g.t.Errorf("status %d", status)
	}
	_ = g.datagrams.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	g.wantNoKey("StatsD", <-datagrams)
	g.wantNoKey("the log", strings.Join(g.logged(), "\n"))
	g.collector.mu.Lock()
	defer g.collector.mu.Unlock()
	if g.token == "" {
		g.wantNoKey("the decision log", contentOf(g.t, filepath.Join(g.folder, "decisions.jsonl")))
	} else if len(g.collector.logs) == 0 {
		g.t.Error("no decisions were sent over OTLP")
	}
	g.wantNoKey("OTLP", string(g.collector.raw))
	for _, leak := range g.leaks(g.replies.String()) {
		if place, _, _ := strings.Cut(leak, ": "); !repeated.MatchString(place) {
			g.t.Errorf("an answer shows the key in %s", leak)
		}
	}
}
