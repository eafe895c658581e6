package server

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// described is a check of GET /ip from an address, with headers as Envoy joins them.
func described(source, path string, headers map[string]string) *authpb.CheckRequest {
	return &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{
			SocketAddress: &corepb.SocketAddress{Address: source, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 1234}},
		}}},
		Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
			Method: "GET", Host: "app.example", Path: path, Headers: headers,
		}},
	}}
}

const extAuthzRules = `rules:
  - {id: by-ip, match: {path: /ip}, by: [ip], limit: 1, window: 1h}
  - {id: by-key, match: {path: /key}, by: [api_key], missing: deny, limit: 1, window: 1h}
  - {id: by-agent, match: {path: /agent}, by: ["header:user-agent"], limit: 1, window: 1h}
`

// code returns the HTTP status that the client would get; 200 if the request may pass.
func code(r *authpb.CheckResponse) int {
	if denied := r.GetDeniedResponse(); denied != nil {
		return int(denied.GetStatus().GetCode())
	}
	return 200
}

func TestExtAuthzDecidesAsForwardAuthDoes(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", Rules: rulesFile(t, extAuthzRules), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	client := authpb.NewAuthorizationClient(dialGRPC(t, s))
	for _, step := range []struct {
		name, source, path string
		headers            map[string]string
		want               int
	}{
		{"the first of an address", "192.0.2.1", "/ip", nil, 200},
		{"the second", "192.0.2.1", "/ip?x=1", nil, 429},
		{"another address", "192.0.2.2", "/ip", nil, 200},
		{"an address made up", "192.0.2.2", "/ip", map[string]string{"x-forwarded-for": "203.0.113.7"}, 429},
		{"behind a proxy", "127.0.0.9", "/ip", map[string]string{"x-forwarded-for": "192.0.2.3, 127.0.0.9"}, 200},
		{"again behind a proxy", "127.0.0.9", "/ip", map[string]string{"x-forwarded-for": "203.0.113.7, 192.0.2.3, 127.0.0.9"}, 429},
		{"another path made up", "192.0.2.1", "/ip", map[string]string{"x-original-uri": "/uncounted", "x-forwarded-uri": "/uncounted", "x-forwarded-method": "PUT"}, 429},
		{"a spelling of the path", "192.0.2.1", "/x/..//%69p", nil, 429},
		{"a path that nothing counts", "192.0.2.1", "/", nil, 200},
		{"a key", "192.0.2.1", "/key", map[string]string{"x-api-key": "a"}, 200},
		{"the key again", "192.0.2.9", "/key", map[string]string{"x-api-key": "a"}, 429},
		{"two keys in one", "192.0.2.1", "/key", map[string]string{"x-api-key": "a,b"}, 400},
		{"two tokens in one", "192.0.2.1", "/key", map[string]string{"authorization": "Bearer a,Bearer b"}, 400},
		{"a text with a comma", "192.0.2.1", "/agent", map[string]string{"user-agent": "x (y, like z)"}, 200},
	} {
		got, err := client.Check(t.Context(), described(step.source, step.path, step.headers))
		if err != nil || code(got) != step.want {
			t.Errorf("%s: %v, %v; want %d", step.name, got, err, step.want)
		}
	}
}

func TestExtAuthzAnswersAsForwardAuth(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", Rules: rulesFile(t, extAuthzRules), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	client := authpb.NewAuthorizationClient(dialGRPC(t, s))
	for _, denied := range []bool{false, true} {
		over, err := client.Check(t.Context(), described("192.0.2.1", "/ip", nil))
		if err != nil {
			t.Fatal(err)
		}
		web := s.get("http", "/v1/auth/ip", "X-Forwarded-For", "192.0.2.2")
		options := over.GetOkResponse().GetResponseHeadersToAdd()
		if denied {
			options = over.GetDeniedResponse().GetHeaders()
			if over.GetDeniedResponse().GetBody() != web.body {
				t.Errorf("bodies %q and %q", over.GetDeniedResponse().GetBody(), web.body)
			}
		}
		sent := map[string]string{}
		for _, o := range options {
			sent[o.GetHeader().GetKey()] = o.GetHeader().GetValue()
		}
		for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "Ratelimit-Policy", "Ratelimit", "Retry-After", "Cache-Control", "Content-Type"} {
			if sent[name] != web.header.Get(name) {
				t.Errorf("%s: %q and %q", name, sent[name], web.header.Get(name))
			}
		}
		if sent["X-Ratelimit-Status"] != "" {
			t.Error("the client gets a field that is for proxies")
		}
	}
}

// A peer that is not trusted speaks for itself, whatever source it names.
// The deadline of the call is how long the proxy waits for the answer. It does not bound the delay of
// the request, which the proxy or its upstream applies.
func TestExtAuthzDelaysPastTheDeadlineOfTheCall(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", Rules: rulesFile(t, "rules: [{id: slow, by: [ip], algorithm: leaky_bucket, params: {limit: 1, window: 1h, queue: 5}}]")})
	client := authpb.NewAuthorizationClient(dialGRPC(t, s))
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	for i := range 3 {
		got, err := client.Check(ctx, described("192.0.2.1", "/", nil))
		if delay := got.GetDynamicMetadata().GetFields()["delay_ms"].GetNumberValue(); err != nil || code(got) != 200 || i > 0 && delay < time.Minute.Seconds()*1000 {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
}

func TestExtAuthzOfAnUntrustedPeer(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", Rules: rulesFile(t, extAuthzRules)})
	client := authpb.NewAuthorizationClient(dialGRPC(t, s))
	for i, source := range []string{"192.0.2.1", "192.0.2.2"} {
		got, err := client.Check(t.Context(), described(source, "/ip", map[string]string{"x-forwarded-for": source}))
		if want := []int{200, 429}[i]; err != nil || code(got) != want {
			t.Errorf("%s: %v, %v; want %d", source, got, err, want)
		}
	}
}

func TestExtAuthzAsksForTheToken(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", HTTPToken: "s3cret"})
	client := authpb.NewAuthorizationClient(dialGRPC(t, s))
	if _, err := client.Check(t.Context(), described("192.0.2.1", "/", nil)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret")
	if got, err := client.Check(ctx, described("192.0.2.1", "/", nil)); err != nil || code(got) != 200 {
		t.Errorf("with: %v, %v", got, err)
	}
}

func TestExtAuthzOfOddRequests(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", Rules: rulesFile(t, extAuthzRules), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	client := authpb.NewAuthorizationClient(dialGRPC(t, s))
	if _, err := client.Check(t.Context(), &authpb.CheckRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("nothing described: %v", err)
	}
	for _, path := range []string{"", "*", "x", "//", "/%zz", "/\x01", "http://other/ip", strings.Repeat("/x", 10_000)} {
		for _, source := range []string{"", "x", "192.0.2.1%eth0", "::ffff:192.0.2.1"} {
			if _, err := client.Check(t.Context(), described(source, path, map[string]string{":path": "/ip", "": "x", "x\x00": "y"})); err != nil {
				t.Errorf("%q from %q: %v", path, source, err)
			}
		}
	}
}
