package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

// rawGet sends a request target unchanged, which http.Client would not do.
func (r *running) rawGet(name, target string, header ...string) answer {
	r.t.Helper()
	var lines strings.Builder
	fmt.Fprintf(&lines, "GET %s HTTP/1.1\r\nHost: shop.example\r\n", target)
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&lines, "%s: %s\r\n", header[i], header[i+1])
	}
	return sendRaw(r.t, r.Addr(name), lines.String()+"\r\n")
}

// sendRaw sends a message by a connection of its own, and reads one answer.
func sendRaw(t *testing.T, addr net.Addr, message string) answer {
	t.Helper()
	conn := dial(t, addr)
	defer conn.Close()
	if _, err := io.WriteString(conn, message); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
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

// login is a rule for one path; it denies every request.
const login = "rules:\n  - {id: login, match: {path: /api/login}, by: [ip], deny_all: true, limit: 1/s}\n"

func TestPathEncodingOnEverySurface(t *testing.T) {
	const escapes, matches, refused = 200, 429, 400
	for spelling, want := range map[string]map[rule.PathEncoding]int{
		"/api/login":              {rule.PathDecode: matches, rule.PathKeep: matches, rule.PathReject: matches},
		"//api/./%6cogin/":        {rule.PathDecode: matches, rule.PathKeep: matches, rule.PathReject: matches},
		"/api%2Flogin":            {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api%2flogin":            {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/x%2F..%2Flogin":     {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/login;a=1":          {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api;x/login;":           {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/x/..;/login":        {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/login%3Bx":          {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/x/..%3B/login":      {rule.PathDecode: matches, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/..;/../login":       {rule.PathDecode: refused, rule.PathKeep: matches, rule.PathReject: refused},
		"/api/x/%2e%2e/login":     {rule.PathDecode: matches, rule.PathKeep: matches, rule.PathReject: refused},
		"/api/a%2Fb/../login":     {rule.PathDecode: refused, rule.PathKeep: matches, rule.PathReject: refused},
		"/api%252Flogin":          {rule.PathDecode: escapes, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/login%00":           {rule.PathDecode: escapes, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api%5Clogin":            {rule.PathDecode: escapes, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api%c0%aflogin":         {rule.PathDecode: escapes, rule.PathKeep: escapes, rule.PathReject: refused},
		"/api/logout?x=/../login": {rule.PathDecode: escapes, rule.PathKeep: escapes, rule.PathReject: escapes},
	} {
		for encoding, status := range want {
			t.Run(fmt.Sprintf("%s %d", spelling, encoding), func(t *testing.T) {
				reached := make(chan string, 1)
				s := run(t, Config{Rules: rulesFile(t, login), Gateway: "127.0.0.1:0", GRPC: "127.0.0.1:0", PathEncoding: encoding,
					TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
					Upstreams:      upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) { reached <- r.RequestURI })})
				checked := s.post("http", "/v1/check", fmt.Sprintf(`{"attributes":{"ip":"10.0.0.1","path":%q}}`, spelling))
				if checked.status == http.StatusOK && checked.decoded(t)["allowed"] == false {
					checked.status = matches
				}
				native := stintv1.NewLimiterServiceClient(dialGRPC(t, s))
				for surface, got := range map[string]answer{
					"gateway":            s.rawGet("gateway", spelling),
					"auth, by its path":  s.rawGet("http", "/v1/auth"+spelling),
					"auth, by its field": s.rawGet("http", "/v1/auth", "X-Original-URI", spelling),
					"check":              checked,
					"gRPC check":         nativeCheck(t, native, spelling),
					"gRPC batch":         nativeCheckBatch(t, native, spelling),
				} {
					if got.status != status {
						t.Errorf("%s: %d %s, want %d", surface, got.status, got.body, status)
					}
				}
				if status == escapes {
					if got := <-reached; got != spelling {
						t.Errorf("the upstream got %q, want the bytes that were sent", got)
					}
				}
			})
		}
	}
}

// nativeCheck returns the answer of gRPC's Check for a path, with the status that
// /v1/auth has for it.
func nativeCheck(t *testing.T, client stintv1.LimiterServiceClient, path string) answer {
	t.Helper()
	got, err := client.Check(t.Context(), &stintv1.CheckRequest{Attributes: map[string]string{"ip": "10.0.0.1", "path": path}})
	switch {
	case status.Code(err) == codes.InvalidArgument:
		return answer{status: http.StatusBadRequest, body: err.Error()}
	case err != nil:
		t.Fatal(err)
	case !got.GetDecision().GetAllowed():
		return answer{status: http.StatusTooManyRequests}
	}
	return answer{status: http.StatusOK}
}

// nativeCheckBatch is nativeCheck by a batch of one.
func nativeCheckBatch(t *testing.T, client stintv1.LimiterServiceClient, path string) answer {
	t.Helper()
	got, err := client.CheckBatch(t.Context(), &stintv1.CheckBatchRequest{Names: []string{"ip", "path"}, Values: []string{"10.0.0.1", path}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.GetFailures() {
		if f.GetCode() == int32(codes.InvalidArgument) {
			return answer{status: http.StatusBadRequest, body: f.GetMessage()}
		}
		t.Fatal(f)
	}
	if !slices.Equal(got.GetDecisions().GetAllowed(), []bool{true}) {
		return answer{status: http.StatusTooManyRequests}
	}
	return answer{status: http.StatusOK}
}
