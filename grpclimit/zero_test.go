package grpclimit

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
)

func mustLimit(t testing.TB, l *stint.Limiter, opts ...Option) *Server {
	t.Helper()
	s, err := Limit(l, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUnknownAttributesAreRefused(t *testing.T) {
	for name, want := range map[string]string{"apikey": `did you mean "api_key"?`, "metod": `did you mean "method"?`, "tenant": "use api_key", "query:tenant": "a call has no query", "header: tenant": "no header"} {
		if _, err := Limit(fixed(t), By(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	for _, name := range []string{"method", "api_key", "header:tenant", "jwt:sub"} { // Tokens may be set later
		if _, err := Limit(fixed(t), By(name)); err != nil {
			t.Error(err)
		}
	}
}

// A missing field is an error of the constructor or of each call, and never a panic.
func TestZeroValues(t *testing.T) {
	for name, s := range map[string]*Server{
		"a counter without a limiter":    {Decider: &Counter{}},
		"a counter with a zero limiter":  {Decider: &Counter{Limiter: &stint.Limiter{}}},
		"an attribute that is not known": {Decider: &Counter{Limiter: fixed(t), By: []string{"apikey"}}},
		"a query":                        {Decider: &Counter{Limiter: fixed(t), By: []string{"query:tenant"}}},
		"a claim without tokens":         {Decider: &Counter{Limiter: fixed(t), By: []string{"jwt:sub"}}},
		"HTTP without a decider":         {Decider: HTTP{}},
	} {
		client := serveInMemory(t, &service{}, s.Options())
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v, want INTERNAL", name, err)
		}
	}
	for name, c := range map[string]*Client{"zero": {}, "that refuses": {Refuse: true}} {
		client := serve(t, &service{}, nil, c.Options()...)
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.Internal {
			t.Errorf("a client %s: %v, want INTERNAL", name, err)
		}
	}
	for name, l := range map[string]*stint.Limiter{"nil": nil, "zero": {}} {
		if _, err := Limit(l); err == nil {
			t.Errorf("a limiter that is %s was taken", name)
		}
	}
	var call Call
	if key, err := (&Counter{By: []string{"api_key", "method"}}).key(&call); key != "shared" || err != nil || call.Metadata("x") != "" || call.Addr().IsValid() {
		t.Errorf("the zero call: %q, %v", key, err)
	}
	client := serveInMemory(t, &service{}, (&Server{}).Options())
	if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
		t.Errorf("a server that decides nothing: %v", err)
	}
}
