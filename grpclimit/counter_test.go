package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/httplimit"
)

// incoming returns a call as a server sees it.
func incoming(from string, sent ...string) *Call {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(append([]string{":authority", "Orders.example:50051"}, sent...)...))
	addr := net.Addr(&net.UnixAddr{Name: "@", Net: "unix"})
	if from != "" {
		addr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
	}
	return &Call{Method: unaryMethod, ctx: peer.NewContext(ctx, &peer.Peer{Addr: addr}), identity: &httplimit.Identity{}}
}

func TestCounterCountsByIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		call    *Call
		want    string
	}{
		"unless said, the address":        {Options{}, incoming("203.0.113.9:1"), "ip:203.0.113.9"},
		"IPv6 by its /64":                 {Options{}, incoming("[2001:db8:1:2:3:4:5:6]:1"), "ip:2001:db8:1:2::/64"},
		"or as set":                       {Options{IPv6Prefix: 48}, incoming("[2001:db8:1:2:3:4:5:6]:1"), "ip:2001:db8:1::/48"},
		"the method":                      {Options{By: []string{"method"}}, incoming("203.0.113.9:1"), "path:" + unaryMethod},
		"the API key and the method":      {Options{By: []string{"api_key", "method"}}, incoming("203.0.113.9:1", "x-api-key", "a"), "api_key:a\x00path:" + unaryMethod},
		"of a bearer token, by a tab":     {Options{By: []string{"api_key"}}, incoming("203.0.113.9:1", "authorization", "bearer\tb "), "api_key:b"},
		"of a bearer token":               {Options{By: []string{"api_key"}}, incoming("203.0.113.9:1", "authorization", "Bearer b"), "api_key:b"},
		"the address where there is none": {Options{By: []string{"api_key"}}, incoming("203.0.113.9:1"), "ip:203.0.113.9"},
		"other metadata":                  {Options{By: []string{"header:tenant"}}, incoming("203.0.113.9:1", "tenant", " t"), "header:tenant:t"},
		"the authority":                   {Options{By: []string{"host"}}, incoming("203.0.113.9:1"), "host:orders.example"},
		"a key of its own":                {Options{Key: func(c *Call) (string, error) { return c.Metadata("Tenant"), nil }}, incoming("203.0.113.9:1", "tenant", "ip:203.0.113.9"), "key:ip:203.0.113.9"},
		"or, where it is empty, as else":  {Options{Key: func(c *Call) (string, error) { return c.Metadata("tenant"), nil }}, incoming("203.0.113.9:1"), "ip:203.0.113.9"},
		"all without any, together":       {Options{}, incoming(""), "shared"},
		"a peer is not to be believed":    {Options{}, incoming("203.0.113.9:1", "x-forwarded-for", "198.51.100.1"), "ip:203.0.113.9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := counting(t, fixed(t), c.options).partKey(0, c.call); got != c.want || err != nil {
				t.Errorf("key %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// Several values of one key are refused, because servers differ in which one they use.
func TestSeveralValuesOfAnIdentityAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		by   string
		sent []string
	}{
		"metadata":      {"header:tenant", []string{"tenant", "t", "tenant", "u"}},
		"authorization": {"api_key", []string{"authorization", "Bearer a", "authorization", "Bearer b"}},
		"x-api-key":     {"api_key", []string{"x-api-key", "a", "x-api-key", "b"}},
		"two tokens":    {"api_key", []string{"authorization", "Bearer a,b"}},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := counting(t, fixed(t), Options{By: []string{c.by}}).partKey(0, incoming("203.0.113.9:1", c.sent...))
			if status := ErrorStatus(err); status.Code() != codes.InvalidArgument {
				t.Errorf("key %q, %v", key, err)
			}
		})
	}
}

func TestKeyThatCannotBeIsAnInvalidArgument(t *testing.T) {
	client := serveInMemory(t, &service{}, mustLimit(t, fixed(t), Options{Key: func(c *Call) (string, error) { return c.Metadata("user-bin"), nil }}).Options())
	for key, want := range map[string]codes.Code{"a\x00b": codes.InvalidArgument, "a": codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "user-bin", key)
		if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); status.Code(err) != want {
			t.Errorf("%q: %v; want %v", key, err, want)
		}
	}
}

func TestTrustedProxySpeaksForItsClients(t *testing.T) {
	client := serve(t, &service{}, mustLimit(t, fixed(t), Options{Trust: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}).Options())
	for n, c := range []struct {
		client string
		want   codes.Code
	}{
		{"203.0.113.1", codes.OK}, {"203.0.113.1", codes.OK}, {"198.51.100.7, 203.0.113.1", codes.ResourceExhausted}, {"203.0.113.2", codes.OK},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", c.client)
		if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); status.Code(err) != c.want {
			t.Errorf("call %d: %v; want %v", n, err, c.want)
		}
	}
}

func TestCostIsWhatTheCallSays(t *testing.T) {
	cost := func(c *Call) int64 { return int64(c.Message.(*pb.SimpleRequest).GetResponseSize()) }
	client := serve(t, &service{}, mustLimit(t, fixed(t), Options{Cost: cost}).Options())
	for n, c := range []struct {
		cost int32
		want codes.Code
	}{{-1, codes.InvalidArgument}, {2, codes.OK}, {1, codes.ResourceExhausted}, {0, codes.OK}} {
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: c.cost}); status.Code(err) != c.want {
			t.Errorf("call %d of cost %d: %v; want %v", n, c.cost, err, c.want)
		}
	}
}

// byPath decides a request by its path, as rules do.
type byPath struct{ seen *httplimit.Request }

func (b *byPath) Decide(_ context.Context, r *httplimit.Request) (httplimit.Answer, error) {
	b.seen = r
	return httplimit.Answer{Listed: true, Binding: -1}, nil
}

func TestDecidersOfHTTPDecideCalls(t *testing.T) {
	d := &byPath{}
	client := serve(t, &service{}, asking(t, HTTP{d}, Options{}).Options())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", "sk_1")
	if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("%v; want what the decider says", err)
	}
	for attribute, want := range map[string]string{
		"method": "POST", "path": unaryMethod, "api_key": "sk_1", "ip": "127.0.0.1", "host": "127.0.0.1", "header:content-type": "application/grpc",
	} {
		if got, _ := d.seen.Attribute(attribute); got != want {
			t.Errorf("%s is %q; want %q", attribute, got, want)
		}
	}
}
