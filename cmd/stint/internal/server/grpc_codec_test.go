package server

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// raw is a message as it is sent.
type raw []byte

// asSent sends raw messages as they are.
type asSent struct{}

func (asSent) Marshal(v any) ([]byte, error)      { return *v.(*raw), nil }
func (asSent) Unmarshal(data []byte, v any) error { *v.(*raw) = data; return nil }
func (asSent) Name() string                       { return "proto" }

func invoke(t *testing.T, conn *grpc.ClientConn, method string, message []byte, answer proto.Message) error {
	t.Helper()
	asked, answered := raw(message), raw(nil)
	if err := conn.Invoke(context.Background(), method, &asked, &answered, grpc.ForceCodec(asSent{})); err != nil {
		return err
	}
	return proto.Unmarshal(answered, answer)
}

func message(number protowire.Number, content ...[]byte) (m []byte) {
	m = protowire.AppendTag(m, number, protowire.BytesType)
	var whole []byte
	for _, c := range content {
		whole = append(whole, c...)
	}
	return protowire.AppendBytes(m, whole)
}

func text(number protowire.Number, s string) []byte { return message(number, []byte(s)) }

// A byte that is not UTF-8 must not fail a check, because Envoy lets a failed check pass.
func TestEnvoyIsAnsweredWhereATextIsNoUTF8(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "shop.yaml"), []byte("domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := run(t, Config{
		GRPC: "127.0.0.1:0", EnvoyConfig: folder,
		Rules: rulesFile(t, extAuthzRules), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	conn := dialGRPC(t, s)
	const limit, check = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "/envoy.service.auth.v3.Authorization/Check"
	for i, user := range []string{"a\xff", "a\xfe", "a\xf0\x9f"} {
		var answer ratelimitpb.RateLimitResponse
		request := append(text(1, "shop"), message(2, message(1, text(1, "user"), text(2, user)))...)
		err := invoke(t, conn, limit, request, &answer)
		if want := []ratelimitpb.RateLimitResponse_Code{ratelimitpb.RateLimitResponse_OK, ratelimitpb.RateLimitResponse_OVER_LIMIT}[min(i, 1)]; err != nil || answer.GetOverallCode() != want {
			t.Errorf("%q: %v, %v; want %v", user, answer.GetOverallCode(), err, want)
		}
	}
	for i, path := range []string{"/ip?\xff", "/ip?\xfe"} {
		var answer authpb.CheckResponse
		source := message(1, message(1, message(1, text(2, "192.0.2.1"))))
		http := message(4, message(2, text(2, "GET"), text(4, path), text(5, "a\xff"), message(3, text(1, "x-odd\xff"), text(2, "\xff"))))
		if err := invoke(t, conn, check, message(1, source, http), &answer); err != nil || code(&answer) != []int{200, 429}[i] {
			t.Errorf("%q: %v, %v", path, &answer, err)
		}
	}
	nested := []byte("\xff")
	for range 2000 { // in the metadata, whose values can be nested
		nested = message(5, message(1, text(1, "a\xff"), message(2, nested)))
	}
	for name, wrong := range map[string][]byte{"cut": text(1, "shop\xff")[:3], "nested": message(1, message(11, message(1, text(1, "x"), message(2, nested))))} {
		if err := invoke(t, conn, check, wrong, &authpb.CheckResponse{}); status.Code(err) == codes.OK {
			t.Errorf("%s: answered", name)
		}
	}
}
