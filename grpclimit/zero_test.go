package grpclimit

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func mustLimit[L httplimit.Limiter](t testing.TB, limiter L, o Options) *Server {
	t.Helper()
	s, err := Limit(limiter, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asking(t testing.TB, d Decider, o Options) *Server {
	t.Helper()
	s, err := New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func counting[L httplimit.Limiter](t testing.TB, limiter L, o Options) *Counter {
	t.Helper()
	c, err := NewCounter(limiter, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sending(t testing.TB, limiter *stint.Limiter, o ClientOptions) *Client {
	t.Helper()
	c, err := NewClient(limiter, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUnknownAttributesAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"apikey": `did you mean "api_key"?`, "metod": `did you mean "method"?`, "tenant": "use api_key",
		"query:tenant": "a call has no query", "header: tenant": "no header", "jwt:sub": "set Identity.Tokens",
	} {
		_, err := Limit(fixed(t), Options{By: []string{name}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "grpclimit: ") || strings.Contains(err.Error(), "httplimit: ") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	for _, name := range []string{"method", "api_key", "header:tenant", "jwt:sub"} {
		if _, err := Limit(fixed(t), Options{By: []string{name}, Identity: httplimit.Identity{Tokens: noToken{}}}); err != nil {
			t.Error(err)
		}
	}
}

// Every option that can be wrong is an error of the constructor.
func TestWrongOptionsAreRefused(t *testing.T) {
	key := func(*Call) (string, error) { return "k", nil }
	for name, c := range map[string]struct {
		options Options
		joint   bool
		want    string
	}{
		"an IPv6 prefix":              {Options{IPv6Prefix: 129}, false, "use 1 to 128"},
		"a jitter":                    {Options{Jitter: -1}, false, "jitter"},
		"a dialect":                   {Options{Dialect: 9}, false, "dialect(9)"},
		"parts of one limiter":        {Options{Parts: []Part{{}}}, false, "set By or Key"},
		"an empty list of parts":      {Options{Parts: []Part{}}, false, "set By or Key"},
		"a key of two limiters":       {Options{Key: key}, true, "set Parts"},
		"no parts of two limiters":    {Options{}, true, "0 parts for 2 limiters"},
		"a query of a part":           {Options{Parts: []Part{{}, {By: []string{"query:a"}}}}, true, "no query"},
		"a claim of a part":           {Options{Parts: []Part{{}, {By: []string{"jwt:a"}}}}, true, "set Identity.Tokens"},
		"a proxy that is nothing":     {Options{Trust: []netip.Prefix{{}}}, false, "ParsePrefixes"},
		"tokens that no one verifies": {Options{Identity: httplimit.Identity{RejectInvalidTokens: true}}, false, "set Tokens"},
		"a zero counter for messages": {Options{MessageDecider: &Counter{}}, false, "constructor"},
	} {
		_, err := Limit(fixed(t), c.options)
		if c.joint {
			_, err = Limit(usersAndTenants(t, stint.NewMemory(stint.MemoryOptions{})), c.options)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "grpclimit: ") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if _, err := New(answers{answer: pass()}, Options{Key: key}); err == nil {
		t.Error("a decider was given a key")
	}
}

// A missing field is an error of the constructor or of each call, and never a panic.
func TestZeroValues(t *testing.T) {
	for name, d := range map[string]Decider{
		"a zero counter":         DeciderFunc(new(Counter).Decide),
		"a nil counter":          DeciderFunc((*Counter)(nil).Decide),
		"HTTP without a decider": HTTP{},
		"HTTP of a zero counter": HTTP{&httplimit.Counter{}},
		"a claim without tokens": DeciderFunc(counting(t, fixed(t), Options{By: []string{"jwt:sub"}}).Decide),
	} {
		client := serveInMemory(t, &service{}, asking(t, d, Options{}).Options())
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v, want INTERNAL", name, err)
		}
	}
	for name, s := range map[string]*Server{"nil": nil, "zero": {}} {
		client := serveInMemory(t, &service{}, s.Options())
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.Internal {
			t.Errorf("a server that is %s: %v, want INTERNAL", name, err)
		}
		if err := echo(open(t.Context(), t, client)); status.Code(err) != codes.Internal {
			t.Errorf("a stream of a server that is %s: %v, want INTERNAL", name, err)
		}
	}
	for name, c := range map[string]*Client{"nil": nil, "zero": {}} {
		client := serve(t, &service{}, nil, c.Options()...)
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.Internal {
			t.Errorf("a client that is %s: %v, want INTERNAL", name, err)
		}
	}
	for name, l := range map[string]*stint.Limiter{"nil": nil, "zero": {}} {
		if _, err := Limit(l, Options{}); err == nil {
			t.Errorf("a limiter that is %s was taken", name)
		}
		if _, err := NewClient(l, ClientOptions{}); err == nil {
			t.Errorf("a client took a limiter that is %s", name)
		}
	}
	for name, d := range map[string]Decider{"nil": nil, "a nil function": DeciderFunc(nil), "a nil counter": (*Counter)(nil), "a zero counter": &Counter{}} {
		if _, err := New(d, Options{}); err == nil {
			t.Errorf("%s was taken", name)
		}
		if d == nil {
			continue // then calls alone are decided
		}
		if _, err := New(DeciderFunc(counting(t, fixed(t), Options{}).Decide), Options{MessageDecider: d}); err == nil {
			t.Errorf("%s was taken for messages", name)
		}
	}
	var call Call
	c := counting(t, fixed(t), Options{By: []string{"api_key", "method"}})
	if key, err := c.partKey(0, &call); key != "shared" || err != nil || call.Metadata("x") != "" || call.Addr().IsValid() {
		t.Errorf("the zero call: %q, %v", key, err)
	}
	if a, err := c.Decide(context.Background(), &call); err != nil || !a.Allowed() {
		t.Errorf("the zero call: %+v, %v", a, err)
	}
}
