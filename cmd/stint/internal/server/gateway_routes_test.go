package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/internal/testserver"
)

// groupOf returns a group with servers at these URLs.
func groupOf(t *testing.T, name string, urls ...string) gateway.GroupOptions {
	t.Helper()
	g := gateway.GroupOptions{Name: name}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		g.Servers = append(g.Servers, gateway.ServerOptions{URL: u})
	}
	return g
}

// naming returns a group whose server answers with the group's name and the path that it
// gets.
func naming(t *testing.T, name string) gateway.GroupOptions {
	t.Helper()
	u := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", name, r.URL.RequestURI()) })
	return groupOf(t, name, u[0].String())
}

// Rules see the path of the client, so no spelling of a path reaches a group past the rules
// for it, and a route that strips a prefix does not change what they match.
func TestRulesSeeThePathOfTheClient(t *testing.T) {
	s := run(t, Config{
		Rules: rulesFile(t, "rules:\n"+
			"  - {id: v1, match: {path_prefix: /v1/}, by: [ip], limit: 3/h}\n"+
			"  - {id: stripped, match: {path_prefix: /admin/}, by: [ip], deny_all: true, limit: 1/s}\n"),
		Gateway:       "127.0.0.1:0",
		GatewayGroups: []gateway.GroupOptions{naming(t, "api"), naming(t, "rest")},
		GatewayRoutes: []gateway.RouteOptions{
			{Group: "api", PathPrefix: "/v1/", StripPrefix: "/v1"},
			{Group: "rest", PathPrefix: "/x/"},
		},
	})
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/v1/admin/x", 200, "api /admin/x"},
		{"/x/../v1/orders", 400, "BAD_PATH"}, // decided by the rule v1, then refused by the route
		{"/v1%2Forders", 400, "BAD_PATH"},
		{"/x/..%2Fv1/orders", 429, "RATE_LIMIT_EXCEEDED"},
		{"/v1/orders", 429, "RATE_LIMIT_EXCEEDED"},
		{"/admin/x", 429, "RATE_LIMIT_EXCEEDED"},
		{"/x/y", 200, "rest /x/y"},
		{"/none", 404, "NO_ROUTE"},
	} {
		if got := s.get("gateway", c.path); got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.path, got.status, got.body, c.status, c.want)
		}
	}
	for _, want := range []string{
		`stint_gateway_requests_total{route="/v1/",status="2xx"} 1`,
		`stint_gateway_requests_total{route="/x/",status="2xx"} 1`,
		`stint_gateway_requests_total{route="",status="4xx"} 3`,
		`stint_gateway_duration_seconds_count{route="/v1/"} 1`,
		`stint_gateway_requests_in_flight{route="/v1/"} 0`,
		`stint_gateway_upstream_servers{state="up",upstream="api"} 1`,
		`stint_gateway_upstream_failures_total{kind="connect",upstream="api"} 0`,
	} {
		if got := s.get("admin", "/metrics").body; !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in the metrics:\n%s", want, gatewayLines(got))
		}
	}
}

func gatewayLines(metrics string) string {
	var lines []string
	for line := range strings.SplitSeq(metrics, "\n") {
		if strings.HasPrefix(line, "stint_gateway") && !strings.Contains(line, "_bucket") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// The Host of a request chooses the application. A client cannot choose by other means.
func TestTheHostOfARequestChoosesItsRoute(t *testing.T) {
	s := run(t, Config{
		Gateway:       "127.0.0.1:0",
		GatewayGroups: []gateway.GroupOptions{naming(t, "a"), naming(t, "b")},
		GatewayRoutes: []gateway.RouteOptions{{Group: "a", Host: "a.example"}, {Group: "b", Host: "*.b.example"}},
	})
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n":                                            "a /",
		"GET / HTTP/1.1\r\nHost: A.Example.:80\r\n\r\n":                                        "a /",
		"GET http://a.example/x HTTP/1.1\r\nHost: x.b.example\r\n\r\n":                         "a /x", // RFC 9112, section 3.2.2
		"GET / HTTP/1.1\r\nHost: x.b.example\r\nX-Forwarded-Host: a.example\r\n\r\n":           "b /",
		"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n":                                            "NO_ROUTE",
		"GET / HTTP/1.0\r\n\r\n":                                                               "NO_ROUTE",
		"GET / HTTP/1.1\r\n\r\n":                                                               "400 Bad Request",
		"GET / HTTP/1.1\r\nHost: a.example\r\nHost: x.b.example\r\n\r\n":                       "400 Bad Request",
		"GET / HTTP/1.1\r\nHost: a.example/\r\n\r\n":                                           "400 Bad Request",
		"GET / HTTP/1.1\r\nHost: a.example, x.b.example\r\nX-Original-Host: a.example\r\n\r\n": "400 Bad Request",
	} {
		conn := dial(t, s.Addr("gateway"))
		if _, err := io.WriteString(conn, strings.Replace(request, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(conn)
		if !strings.Contains(string(got), want) {
			t.Errorf("%q: got %s, want %s", request, got, want)
		}
	}
}

// HTTP/2 has two places for the host. The rules, the route and the upstream read the same.
func TestTheAuthorityOfHTTP2IsTheHost(t *testing.T) {
	host := func(name string) gateway.GroupOptions {
		u := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s gets %s %q", name, r.Host, r.Header["Host"])
		})
		return groupOf(t, name, u[0].String())
	}
	s := run(t, Config{
		Rules:         rulesFile(t, "rules: [{id: b, match: {host: b.example}, by: [ip], deny_all: true, limit: 1/s}]\n"),
		Gateway:       "127.0.0.1:0",
		GatewayGroups: []gateway.GroupOptions{host("a"), host("b"), host("none")},
		GatewayRoutes: []gateway.RouteOptions{{Group: "a", Host: "a.example"}, {Group: "b", Host: "b.example"}, {Group: "none"}},
	})
	for name, c := range map[string]struct {
		fields [][2]string
		want   string
	}{
		"authority alone": {[][2]string{{":authority", "a.example"}}, "a gets a.example []"},
		"another host":    {[][2]string{{":authority", "a.example"}, {"host", "b.example"}}, "a gets a.example []"},
		"denied host":     {[][2]string{{":authority", "b.example"}, {"host", "a.example"}}, "RATE_LIMIT_EXCEEDED"},
		"host alone":      {[][2]string{{"host", "b.example"}}, "RATE_LIMIT_EXCEEDED"},
	} {
		conn := dial(t, s.Addr("gateway"))
		framer := http2.NewFramer(conn, conn)
		_, err := io.WriteString(conn, http2.ClientPreface)
		fields := append([][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}}, c.fields...)
		err = errors.Join(err, framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headerBlock(t, fields), EndHeaders: true, EndStream: true}))
		var body string
		for err == nil && body == "" {
			var frame http2.Frame
			frame, err = framer.ReadFrame()
			switch f := frame.(type) {
			case *http2.DataFrame:
				body = string(f.Data())
			case *http2.RSTStreamFrame, *http2.GoAwayFrame:
				body = frame.Header().String()
			}
		}
		if err != nil || !strings.Contains(body, c.want) {
			t.Errorf("%s: %v, %s; want %s", name, err, body, c.want)
		}
	}
}

// A group has its own authorities, certificate and server name, and its connections change
// with the files.
func TestAGroupHasCertificatesOfItsOwn(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	server, client := ours.files(), ours.files()
	ours.issue(1, server)
	ours.issue(7, client)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %d", r.Proto, r.TLS.PeerCertificates[0].SerialNumber)
	}))
	upstream.TLS = ours.client(server)
	upstream.TLS.ClientCAs, upstream.TLS.ClientAuth = upstream.TLS.RootCAs, tls.RequireAndVerifyClientCert
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	t.Cleanup(upstream.Close)

	group := func(name, ca string, pair TLSFiles, serverName string) gateway.GroupOptions {
		g := groupOf(t, name, upstream.URL)
		var err error
		if g.Files, err = secret.OpenClientTLS(secret.ClientFiles{Prefix: "tls.", CA: ca, Cert: pair.Cert, Key: pair.Key}); err != nil {
			t.Fatal(err)
		}
		g.TLS = &tls.Config{ServerName: serverName, MinVersion: tls.VersionTLS12}
		return g
	}
	var routes []gateway.RouteOptions
	for _, name := range []string{"good", "stranger", "nameless", "unnamed"} {
		routes = append(routes, gateway.RouteOptions{Group: name, PathPrefix: "/" + name})
	}
	s := run(t, Config{Gateway: "127.0.0.1:0", GatewayRoutes: routes, GatewayGroups: []gateway.GroupOptions{
		group("good", ours.file, client, ""),
		group("stranger", others.file, client, ""),
		group("nameless", ours.file, TLSFiles{}, ""),
		group("unnamed", ours.file, client, "other.example"),
	}})
	if got := s.get("gateway", "/good"); got.body != "HTTP/2.0 7" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	for path, want := range map[string]int{"/stranger": 503, "/unnamed": 503} { // nothing was sent
		if got := s.get("gateway", path); got.status != want {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
		}
	}
	if got := s.get("gateway", "/nameless"); got.status < 502 {
		t.Errorf("without a certificate: %d %s", got.status, got.body)
	}
	ours.issue(8, client)
	awaitTrue(t, "the second certificate is shown", func() bool { return s.get("gateway", "/good").body == "HTTP/2.0 8" })
	writeFile(t, client.Key, "no key")
	s.logs.wait(t, "secret file rejected")
	if got := s.get("gateway", "/good"); got.body != "HTTP/2.0 8" {
		t.Errorf("after a mistake: %d %s", got.status, got.body)
	}
}

// gRPC passes through a route with all kinds of calls, and its status in trailers.
func TestGRPCPassesThroughARoute(t *testing.T) {
	ours := newAuthority(t, "ours")
	files := ours.files()
	ours.issue(1, files)
	for name, secure := range map[string]bool{"h2c": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			var group gateway.GroupOptions
			if secure {
				group = groupOf(t, "grpc", "https://"+grpcUpstream(t, grpc.Creds(credentials.NewTLS(ours.client(files)))))
				group.TLS = ours.client(TLSFiles{})
			} else {
				group = groupOf(t, "grpc", "h2c://"+grpcUpstream(t))
			}
			s := run(t, Config{Gateway: "127.0.0.1:0", GatewayGroups: []gateway.GroupOptions{group, naming(t, "rest")},
				GatewayRoutes: []gateway.RouteOptions{
					{Group: "grpc", PathPrefix: "/grpc.", RequestHeaders: gateway.HeaderOptions{Set: map[string]string{"X-Plan": "gold"}}},
					{Group: "rest"},
				}})
			conn, err := grpc.NewClient(s.Addr("gateway").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			callHealth(ctx, t, healthpb.NewHealthClient(conn))
			callReflection(ctx, t, reflectionpb.NewServerReflectionClient(conn))
			if got := s.get("gateway", "/x"); got.body != "rest /x" {
				t.Errorf("the other route: %d %s", got.status, got.body)
			}
		})
	}
}

func grpcUpstream(t *testing.T, options ...grpc.ServerOption) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	serving := health.NewServer()
	serving.SetServingStatus("known", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, serving)
	reflection.Register(server)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// callHealth makes a call of one message each way, one that fails, and one with a stream of
// answers.
func callHealth(ctx context.Context, t *testing.T, c healthpb.HealthClient) {
	t.Helper()
	if got, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: "known"}); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("a unary call: %v, %v", got, err)
	}
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: "unknown"}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "unknown service") {
		t.Errorf("a status in trailers: %v", err)
	}
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Watch(watch, &healthpb.HealthCheckRequest{Service: "known"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("a stream of answers: %v, %v", got, err)
	}
}

// callReflection makes a call with a stream of messages each way.
func callReflection(ctx context.Context, t *testing.T, c reflectionpb.ServerReflectionClient) {
	t.Helper()
	stream, err := c.ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
		if err := stream.Send(ask); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); err != nil || len(got.GetListServicesResponse().GetService()) < 2 {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// A WebSocket through a route gets the changed path and the changed header, and counts as in
// flight.
func TestAWebSocketPassesThroughARoute(t *testing.T) {
	var plan atomic.Value
	upstream := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		plan.Store(r.URL.Path + " " + r.Header.Get("X-Plan"))
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		kind, text, err := c.Read(r.Context())
		if err == nil {
			_ = c.Write(r.Context(), kind, append([]byte("echo "), text...))
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
	})
	s := run(t, Config{Gateway: "127.0.0.1:0", GatewayGroups: []gateway.GroupOptions{groupOf(t, "ws", upstream[0].String())},
		GatewayRoutes: []gateway.RouteOptions{{
			Name: "sockets", Group: "ws", PathPrefix: "/ws/", StripPrefix: "/ws", AddPrefix: "/v2",
			RequestHeaders: gateway.HeaderOptions{Set: map[string]string{"X-Plan": "gold"}},
		}}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, s.url("gateway", "/ws/chat"), nil)
	if err != nil {
		t.Fatal(err)
	}
	inFlight := func(n int) bool {
		return strings.Contains(s.get("admin", "/metrics").body, fmt.Sprintf("stint_gateway_requests_in_flight{route=\"sockets\"} %d\n", n))
	}
	if plan.Load() != "/v2/chat gold" || !inFlight(1) {
		t.Errorf("the upstream got %v", plan.Load())
	}
	if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, text, err := c.Read(ctx); string(text) != "echo hello" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	_ = c.CloseNow()
	awaitTrue(t, "the WebSocket is not in flight any more", func() bool { return inFlight(0) })
}

// Failures are counted by the group, not by what a client sends.
func TestFailuresOfAGroupAreCounted(t *testing.T) {
	broken := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	s := run(t, Config{Gateway: "127.0.0.1:0",
		GatewayGroups: []gateway.GroupOptions{groupOf(t, "broken", broken[0].String()), groupOf(t, "gone", "http://"+testserver.FreeAddr(t))},
		GatewayRoutes: []gateway.RouteOptions{{Group: "broken"}, {Name: "gone", Group: "gone", PathPrefix: "/gone/"}}})
	if got := s.post("gateway", "/", "x"); got.status != http.StatusBadGateway {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := s.get("gateway", "/gone/"); got.status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", got.status, got.body)
	}
	got := s.get("admin", "/metrics").body
	for _, want := range []string{
		`stint_gateway_upstream_failures_total{kind="broken",upstream="broken"} 1`,
		`stint_gateway_requests_total{route="/",status="5xx"} 1`,
		`stint_gateway_requests_total{route="gone",status="5xx"} 1`,
		`stint_gateway_upstream_servers{state="down",upstream="gone"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in the metrics:\n%s", want, gatewayLines(got))
		}
	}
	if strings.Contains(got, `failures_total{kind="connect",upstream="gone"} 0`) {
		t.Error("the failed dial is not counted")
	}
}
