package quorumstore

import (
	"context"
	"errors"
	"testing"

	"github.com/stintdev/stint"
)

// failingServer is a server whose calls all fail.
type failingServer struct {
	server

	err error
}

func (s failingServer) call(context.Context, *request) (*reply, error)         { return nil, s.err }
func (s failingServer) mark(context.Context, *markRequest) (*markReply, error) { return nil, s.err }

// The error of a check tells the reason of the servers if it is that of all that failed.
func TestTheCommonReasonIsTold(t *testing.T) {
	t.Parallel()
	refused := func(kind stint.Kind) error {
		return &stint.Error{Code: stint.CodeUnavailable, Kind: kind, Mend: "mend of " + string(kind)}
	}
	unanswered := &stint.Error{Code: stint.CodeTimeout, Kind: "connection"}
	for _, c := range []struct {
		name string
		errs [3]error
		kind stint.Kind
	}{
		{"all", [3]error{refused("noauth"), refused("noauth"), refused("noauth")}, "noauth"},
		{"a majority", [3]error{refused("eviction"), nil, refused("eviction")}, "eviction"},
		{"two reasons", [3]error{refused("noauth"), refused("version"), refused("noauth")}, "quorum"},
		{"down", [3]error{refused("connection"), refused("connection"), refused("connection")}, "quorum"},
		{"one refuses, one is silent", [3]error{refused("noauth"), unanswered, nil}, "quorum"},
	} {
		servers := newMemoryServers(3)
		if err := newBackend(servers, backendOptions{}).initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, err := range c.errs {
			if err != nil {
				servers[i] = failingServer{servers[i], err}
			}
		}
		_, err := newTestStore(t, servers).Take(t.Context(), testClaim(t, "k", "5/h"))
		e, ok := errors.AsType[*stint.Error](err)
		if !ok || e.Kind != c.kind || e.Code != stint.CodeUnavailable || c.kind != "quorum" && e.Mend != "mend of "+string(c.kind) {
			t.Errorf("%s: %#v", c.name, err)
		}
	}
}

// A process with the list of before a replacement is told so, by checks and by a repair.
func TestAnotherListOfMembersIsTold(t *testing.T) {
	t.Parallel()
	servers := newMemoryServers(4)
	before, after := newBackend(servers[:3], backendOptions{}), newBackend(servers[1:], backendOptions{})
	if err := before.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := after.replace(t.Context(), 2, before.hash); err != nil {
		t.Fatal(err)
	}
	told := func(err error) {
		t.Helper()
		if e, ok := errors.AsType[*stint.Error](err); !ok || e.Kind != kindMembers || e.Mend != mendMembers {
			t.Errorf("%#v", err)
		}
	}
	told(before.repair(t.Context(), before.members[0]))
	told(before.repair(t.Context(), before.members[1]))
	_, err := newTestStore(t, servers[:3]).Take(t.Context(), testClaim(t, "k", "5/h"))
	told(err)
}
