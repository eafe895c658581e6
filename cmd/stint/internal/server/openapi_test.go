package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
)

// document is the OpenAPI document, and the parts of it that the tests have seen.
type document struct {
	*openapi3.T

	seen map[string]bool // "path status"
}

func readDocument(t *testing.T) *document {
	t.Helper()
	d, err := openapi3.NewLoader().LoadFromFile("../httpapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return &document{d, map[string]bool{}}
}

func TestOpenAPIDocumentIsValidAndServed(t *testing.T) {
	d := readDocument(t)
	if err := d.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	s := run(t, Config{HTTPToken: "secret"})
	got := s.get("http", "/openapi.yaml")
	if got.status != http.StatusOK || !strings.HasPrefix(got.body, "openapi: ") || got.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("status %d, %v", got.status, got.header)
	}
}

// TestOpenAPIDocumentHasEveryRoute compares the document with the router.
func TestOpenAPIDocumentHasEveryRoute(t *testing.T) {
	s, err := New(Config{Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000})})
	if err != nil {
		t.Fatal(err)
	}
	routed, documented := map[string]string{}, map[string]string{}
	router := s.httpHandler().(*httpapi.Router)
	for path, r := range router.Paths {
		routed[path] = r.Method
	}
	for _, f := range router.Folders {
		routed[f.Prefix] = http.MethodGet // any other method is refused
	}
	for path, item := range readDocument(t).Paths.Map() {
		for method := range item.Operations() {
			documented[path] = method
		}
	}
	if fmt.Sprint(routed) != fmt.Sprint(documented) {
		t.Errorf("routed:     %v\ndocumented: %v", routed, documented)
	}
}

// exchange is a request, and the status that answers it.
type exchange struct {
	path, body string
	header     []string
	want       int
	wrong      bool // the document refuses this body, too
}

const (
	goodCheck = `{"attributes":{"api_key":"a","path":"/v1/x","n":1,"b":true},"cost":1}`
	goodTake  = `{"key":"k","limit":{"algorithm":"token_bucket","capacity":10,"refill_rate":1.67}}`
)

func goodExchanges() []exchange {
	limits := []string{
		`"100/m"`, `{"limit":100,"window":60}`, `{"algorithm":"token_bucket","limit":100,"window":"1m","burst":20}`,
		`{"algorithm":"gcra","limit":10,"window":"1s","burst":5}`, `{"algorithm":"fixed_window","limit":"100","window":"1m","name":"a"}`,
		`{"algorithm":"sliding_window_counter","limit":100,"window":"1m","buckets":10}`, `{"algorithm":"sliding_window_log","limit":5,"window":"1h"}`,
		`{"algorithm":"leaky_bucket","limit":10,"window":"1s","queue":20,"max_wait":"500ms"}`, `{"algorithm":"quota","limit":1000,"period":"month","utc_offset":"+02:00"}`,
		`{"algorithm":"quota","limit":1000,"period":"30d","anchor":"2026-01-31T00:00:00Z"}`,
	}
	all := []exchange{
		{path: "/v1/check", body: goodCheck, want: 200},
		{path: "/v1/check", body: `{"attributes":{"api_key":"a","path":"/none"}}`, want: 200},
		{path: "/v1/check", body: `{"attributes":{"api_key":"sk_revoked_1","path":"/v1/x"}}`, want: 200},
		{path: "/v1/take", body: `{"key":"k","limit":"1/s","cost":9}`, want: 200},
		{path: "/v1/take", body: `{"key":"k","limit":"1/s","cost":-1,"at_us":1700000040000000,"on_store_failure":"local"}`, want: 200},
		{path: "/v1/take", body: `{"key":"k","limits":[` + strings.Join(limits[3:9], ",") + `],"cost":2}`, want: 200},
		{path: "/v1/peek", body: `{"key":"k","limits":["1/s","1/m"]}`, want: 200},
		{path: "/v1/peek", body: `{"attributes":{"api_key":"a","path":"/v1/x"}}`, want: 200},
		{path: "/v1/refund", body: `{"key":"k","limit":"1/s","cost":2,"at_us":1700000040000000}`, want: 200},
		{path: "/v1/giveback", body: `{"key":"k","limit":"1/s","cost":2,"at_us":1700000040000000}`, want: 200},
		{path: "/v1/batch", body: batchOf(), want: 200},
		{path: "/v1/check", body: `{"attributes":{"api_key":"named","path":"/v1/x"},"request_id":"c"}`, want: 200},
		{path: "/v1/check", body: `{"attributes":{"api_key":"named","path":"/v1/y"},"request_id":"c"}`, want: 409},
		{path: "/v1/take", body: `{"key":"n","limit":"1/m"}`, header: []string{"Idempotency-Key", `"t"`}, want: 200},
		{path: "/v1/take", body: `{"key":"m","limit":"1/m","request_id":"t"}`, want: 409},
		{path: "/v1/refund", body: `{"key":"n","limit":"1/m","request_id":"t"}`, want: 409},
		{path: "/v1/giveback", body: `{"key":"n","limit":"1/m","request_id":"t"}`, want: 409},
		{path: "/v1/batch", body: batchOf(`{"key":"p","limit":"1/m"}`), header: []string{"Idempotency-Key", "b"}, want: 200},
		{path: "/v1/batch", body: batchOf(`{"key":"q","limit":"1/m"}`), header: []string{"Idempotency-Key", "b"}, want: 409},
		{path: "/v1/auth", header: []string{"X-API-Key", "c"}, want: 200},
		{path: "/v1/auth/v1/x", header: []string{"X-API-Key", "c"}, want: 200},
		{path: "/v1/auth;deny_status=403/v1/x", header: []string{"X-API-Key", "c"}, want: 200},
		{path: "/v1/auth/v1/x", header: []string{"X-API-Key", "c"}, want: 429},
		{path: "/v1/auth/v1/x", header: []string{"X-API-Key", "c", "Accept", "application/problem+json"}, want: 429},
		{path: "/v1/auth;deny_status=418/v1/x", header: []string{"X-API-Key", "c"}, want: 418},
		{path: "/v1/auth/v1/x", header: []string{"X-API-Key", "sk_revoked_1"}, want: 403},
		{path: "/json", body: `{"domain":"shop","hitsAddend":3,"descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}`, want: 200},
		{path: "/json", body: `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}`, want: 429},
		{path: "/healthz", want: 200}, {path: "/readyz", want: 200}, {path: "/healthcheck", want: 200}, {path: "/openapi.yaml", want: 200},
	}
	for _, l := range limits {
		all = append(all, exchange{path: "/v1/take", body: `{"key":"l","limit":` + l + `}`, want: 200})
	}
	return all
}

func badExchanges() []exchange {
	huge := strings.Repeat(" ", httpapi.MaxBody) + "[]"
	all := []exchange{
		{path: "/v1/auth?deny_status=500", want: 400, wrong: true},
		{path: "/v1/take", body: `{"key":"k","limits":["1/s","2/s"]}`, want: 400},
		{path: "/v1/batch", body: `{"item":[]}`, want: 400, wrong: true},
		{path: "/json", body: `{"domain":1}`, want: 400, wrong: true},
	}
	for _, body := range []string{`{}`, `{"attributes":{"a":null}}`, `{"attributes":{},"cost":-1}`, `{"attributes":{},"key":"k"}`, `{"attributes":{},"cost":1.5}`} {
		all = append(all, exchange{path: "/v1/check", body: body, want: 400, wrong: true})
	}
	for _, member := range []string{
		`,"limit":"1/s","request_id":""`, `,"limit":"1/s","request_id":"a b"`,
		``, `,"limit":"1/y"`, `,"limit":{"limit":0,"window":1}`, `,"limit":{"limit":1,"windw":1}`, `,"limit":"1/s","limits":["1/m"]`,
		`,"limits":[]`, `,"limit":"1/s","cost":"1"`, `,"limit":"1/s","on_store_failure":"shut"`, `,"limit":"1/s","at_us":5,"cost":1`, `,"limit":"1/s","attributes":{}`,
	} {
		all = append(all, exchange{path: "/v1/take", body: `{"key":"k"` + member + `}`, want: 400, wrong: true})
	}
	for _, body := range []string{`{}`, `{"key":"k","limit":"1/s","cost":0}`, `{"key":"","limit":"1/s"}`} {
		all = append(all, exchange{path: "/v1/peek", body: body, want: 400, wrong: true}, exchange{path: "/v1/refund", body: body, want: 400, wrong: true}, exchange{path: "/v1/giveback", body: body, want: 400, wrong: true})
	}
	for _, path := range []string{"/v1/check", "/v1/take", "/v1/peek", "/v1/refund", "/v1/giveback", "/v1/batch", "/json"} {
		all = append(all, exchange{path: path, body: huge, want: 413, wrong: true})
	}
	for _, e := range everywhere(http.StatusForbidden) {
		if e.want, e.header = http.StatusForbidden, []string{"Sec-Fetch-Site", "cross-site"}; !strings.HasPrefix(e.path, httpapi.AuthPath) {
			all = append(all, e)
		}
	}
	return all
}

// TestExchangesAreAsDocumented makes each kind of exchange, and checks requests and responses
// against the document. A documented response that no exchange shows is an error.
func TestExchangesAreAsDocumented(t *testing.T) {
	d := readDocument(t)
	d.exchange(t, documented(t, Config{}), append(goodExchanges(), badExchanges()...))
	d.exchange(t, documented(t, Config{HTTPToken: "secret"}), everywhere(http.StatusUnauthorized))
	d.exchange(t, documented(t, Config{Store: failing{code: stint.CodeInternal}}), append(everywhere(http.StatusInternalServerError),
		exchange{path: "/v1/batch", body: batchOf(goodTake, goodCheck, `{"key":"k"}`), want: 200, wrong: true}))
	d.exchange(t, documented(t, Config{Store: failing{code: stint.CodeUnavailable}}), everywhere(http.StatusServiceUnavailable))
	shut := failing{degraded: &stint.Decision{Degraded: true, Unavailable: true, Limit: 1, RetryAfter: time.Second}}
	d.exchange(t, documented(t, Config{Store: shut}), []exchange{
		{path: "/v1/check", body: `{"attributes":{"api_key":"a","path":"/shut"}}`, want: 503},
		{path: "/v1/take", body: `{"key":"k","limit":"1/s","on_store_failure":"closed"}`, want: 503},
		{path: "/v1/auth/shut", header: []string{"X-API-Key", "a"}, want: 503},
	})
	d.unready(t)
	d.tooSlow(t)
	for path, item := range d.Paths.Map() {
		for _, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if !d.seen[path+" "+status] {
					t.Errorf("%s: %s is documented, and no exchange shows it", path, status)
				}
			}
		}
	}
}

// everywhere sends a request to every endpoint that can give this answer.
func everywhere(status int) (all []exchange) {
	for path, body := range map[string]string{
		"/v1/check": goodCheck, "/v1/take": goodTake, "/v1/peek": `{"key":"k","limit":"1/s"}`, "/v1/refund": `{"key":"k","limit":"1/s"}`, "/v1/giveback": `{"key":"k","limit":"1/s"}`,
		"/v1/batch": batchOf(goodTake), "/v1/auth/v1/x": "", "/json": `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}`,
	} {
		each := exchange{path: path, body: body, header: []string{"X-API-Key", "c"}, want: status}
		switch {
		case path == "/v1/batch" && status != http.StatusUnauthorized:
			each.want = http.StatusOK // each item of a batch has its error
		case path == "/json" && status == http.StatusServiceUnavailable:
			each.want = http.StatusInternalServerError // the status of Envoy's own service
		}
		all = append(all, each)
	}
	return all
}

// documented is a server that has rules, a list and a file of Envoy's service.
func documented(t *testing.T, config Config) *running {
	t.Helper()
	config.Rules = rulesFile(t, `
rules:
  - {id: orders, match: {path_prefix: /v1/}, by: [api_key], limit: 2, window: 60, algorithm: fixed_window}
  - {id: seen, match: {path_prefix: /v1/}, by: [api_key], limit: 1, window: 60, mode: shadow}
  - {id: shut, match: {path_prefix: /shut}, by: [api_key], limit: 1, window: 60, on_store_failure: closed}
blacklist: ["sk_revoked_*"]
`)
	config.EnvoyConfig = t.TempDir()
	writeFile(t, filepath.Join(config.EnvoyConfig, "shop.yaml"), envoyFile)
	return run(t, config)
}

func (d *document) exchange(t *testing.T, s *running, all []exchange) {
	t.Helper()
	for _, e := range all {
		method := http.MethodPost
		if e.body == "" {
			method = http.MethodGet
		}
		header := append([]string{"Content-Type", "application/json"}, e.header...)
		got := s.do(method, "http", e.path, e.body, header)
		if got.status != e.want {
			t.Errorf("%s %.200s: status %d, want %d: %s", e.path, e.body, got.status, e.want, got.body)
		}
		d.judge(t, s, method, e, header, got)
	}
}

// judge checks an exchange against the document.
func (d *document) judge(t *testing.T, s *running, method string, e exchange, header []string, got answer) {
	t.Helper()
	path, _, _ := strings.Cut(e.path, "?")
	if strings.HasPrefix(path, httpapi.AuthPath) {
		path = httpapi.AuthPath
	}
	item := d.Paths.Value(path)
	op := item.GetOperation(method)
	r, err := http.NewRequestWithContext(t.Context(), method, s.url("http", e.path), strings.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	request := &openapi3filter.RequestValidationInput{
		Request: r, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
		Route: &routers.Route{Spec: d.T, Path: path, PathItem: item, Method: method, Operation: op},
	}
	if err := openapi3filter.ValidateRequest(t.Context(), request); (err != nil) != e.wrong {
		t.Errorf("%s %.200s: the document says of the request: %v", e.path, e.body, err)
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader([]byte(got.body))), Options: request.Options,
	}
	if err := openapi3filter.ValidateResponse(t.Context(), response); err != nil {
		t.Errorf("%s %.200s: the document says of %.300s: %v", e.path, e.body, got.body, err)
	}
	d.see(op, path, got.status)
}

func (d *document) see(op *openapi3.Operation, path string, status int) {
	key := fmt.Sprint(status)
	if op.Responses.Value(key) == nil {
		key = key[:1] + "XX"
	}
	d.seen[path+" "+key] = true
}

// unready sends requests while a server drains.
func (d *document) unready(t *testing.T) {
	t.Helper()
	s := run(t, Config{DrainDelay: patience, DrainTimeout: 100 * time.Millisecond})
	s.stop()
	s.logs.wait(t, "draining")
	d.exchange(t, s, []exchange{{path: "/readyz", want: 503}, {path: "/healthcheck", want: 503}})
}

// tooSlow sends bodies that do not end.
func (d *document) tooSlow(t *testing.T) {
	t.Helper()
	s := run(t, Config{BodyTimeout: 50 * time.Millisecond})
	for path, item := range d.Paths.Map() {
		op := item.Post
		if op == nil {
			continue
		}
		conn := dial(t, s.Addr("http"))
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", path); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%s: status %d, %v", path, response.StatusCode, err)
		}
		d.judge(t, s, http.MethodPost, exchange{path: path, body: `{`, wrong: true}, []string{"Content-Type", "application/json"}, answer{response.StatusCode, response.Header, string(body)})
	}
}

// TestDocumentNamesEveryCode compares the codes of errors with the document's.
func TestDocumentNamesEveryCode(t *testing.T) {
	codes := readDocument(t).Components.Schemas["Error"].Value.Properties["error"].Value.Properties["code"].Value.Enum
	for _, code := range []string{"INVALID_REQUEST", "BODY_TOO_LARGE", "UNAUTHORIZED", "FORBIDDEN", "NOT_FOUND", "METHOD_NOT_ALLOWED", "STORE_UNAVAILABLE", "INTERNAL"} {
		if !slices.Contains(codes, any(code)) {
			t.Errorf("%s is not documented", code)
		}
	}
}
