package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint/internal/redistest"
)

// A client of the program's own reaches the servers as the store does, and the store can
// use that client.
func TestClientOptionReachesTheServers(t *testing.T) {
	server, trusting := redistest.ServerTLS(t)
	server.Must("ACL", "SETUSER", "app", "on", ">hidden", "+@all", "~*", "&*")
	var d dialed
	o := Options{
		Addrs: []string{server.Addr()}, TLS: trusting, Dial: d.dial, DB: 3,
		Credentials: func(context.Context) (string, string, error) { return "app", "hidden", nil },
	}
	option, err := o.ClientOption(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	info, err := client.Do(t.Context(), client.B().ClientInfo().Build()).ToString()
	if err != nil || !strings.Contains(info, "user=app") || !strings.Contains(info, "db=3") {
		t.Errorf("%q, %v", info, err)
	}
	d.wantDialed(t, server.Addr())
	takes(t, open(t, Options{Client: client}), "a")
}

func TestClientOptionNeedsCredentials(t *testing.T) {
	down := errors.New("the token service is down")
	fails := func(context.Context) (string, string, error) { return "", "", down }
	for name, o := range map[string]Options{
		"server":   {Addrs: []string{"h:1"}, Credentials: fails},
		"sentinel": {Topology: Sentinel, Master: "m", Addrs: []string{"h:1"}, SentinelCredentials: fails},
	} {
		if _, err := o.ClientOption(t.Context()); !errors.Is(err, down) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTopologiesHaveNames(t *testing.T) {
	for topology, want := range map[Topology]string{Single: "single", Cluster: "cluster", Sentinel: "sentinel", 3: "topology(3)"} {
		if got := topology.String(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
