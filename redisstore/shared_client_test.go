package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// newClient returns a client of the program, with the defaults of package rueidis.
func newClient(t *testing.T, o rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func sentinelClient(t *testing.T, servers *redistest.SentinelServers) rueidis.Client {
	t.Helper()
	return newClient(t, rueidis.ClientOption{
		InitAddress: servers.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: servers.Name, TopologyRefreshInterval: time.Second},
	})
}

func TestTheClientOfTheProgramStaysOpen(t *testing.T) {
	server := redistest.Server(t)
	client := newClient(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, SelectDB: 3, ClientName: "shop"})
	s, err := New(Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	takes(t, s, "a", "b")
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.String(); got != "redis://"+server.Addr() {
		t.Error(got)
	}
	if clients := server.Must("CLIENT", "LIST"); strings.Contains(clients, "name=stint ") || !strings.Contains(clients, "name=shop ") {
		t.Errorf("the store connects by itself: %s", clients)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, err = s.Take(t.Context(), stint.Claim{Key: "a", Limit: perHour(t, 10), Cost: 1})
	wantError(t, err, stint.CodeUnavailable, "stopped")
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Error("the client after Close of the store:", err)
	}
	if n, err := client.Do(t.Context(), client.B().Dbsize().Build()).AsInt64(); n < 2 || err != nil {
		t.Errorf("%d keys in the client's database, %v", n, err)
	}
}

func TestOptionsBesideAClientAreRefused(t *testing.T) {
	client := newClient(t, rueidis.ClientOption{InitAddress: []string{redistest.Server(t).Addr()}})
	login := func(context.Context) (string, string, error) { return "", "", nil }
	for name, o := range map[string]Options{
		"Addrs":               {Addrs: []string{"h:1"}},
		"Topology":            {Topology: Cluster},
		"Username":            {Username: "app"},
		"Password":            {Password: "hidden"},
		"Credentials":         {Credentials: login},
		"SentinelCredentials": {SentinelCredentials: login},
		"DB":                  {DB: 1},
		"TLS":                 {TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
		"Dial":                {Dial: (&net.Dialer{}).DialContext},
	} {
		o.Client = client
		s, err := New(o)
		var e *stint.Error
		if s != nil || !errors.As(err, &e) || e.Code != stint.CodeInvalid || e.Mend == "" || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The client's own timeout is ten seconds.
func TestAClientOfTheProgramHoldsNoCheck(t *testing.T) {
	server := redistest.Server(t)
	s := open(t, Options{Client: newClient(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}}), Timeout: 100 * time.Millisecond})
	takes(t, s, "a")
	server.Freeze()
	began := time.Now()
	_, err := s.Take(t.Context(), stint.Claim{Key: "a", Limit: perHour(t, 10), Cost: 1})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	wantError(t, err, stint.CodeTimeout, "timeout")
	s.Shards().Stop("")
	_, err = s.Take(t.Context(), stint.Claim{Key: "a", Limit: perHour(t, 10), Cost: 1})
	wantError(t, err, stint.CodeUnavailable, "stopped")
	server.Thaw()
	await(t, func() bool { return s.Ping(t.Context()) == nil })
	s.Shards().Start("")
	takes(t, s, "a")
}

func TestAClientOfTheProgramFindsARestartedServer(t *testing.T) {
	server := redistest.Server(t)
	s := open(t, Options{Client: newClient(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})})
	takes(t, s, "a")
	server.Kill()
	await(t, func() bool {
		var e *stint.Error
		_, err := s.Take(t.Context(), stint.Claim{Key: "a", Limit: perHour(t, 10), Cost: 1})
		return errors.As(err, &e) && e.Code == stint.CodeUnavailable && e.Kind == "connection"
	})
	server.Restart()
	takes(t, s, "a")
	if n := s.Stats().NoScript; n != 0 {
		t.Errorf("%d calls missed their script; want it loaded again", n)
	}
}

func TestAClientOfTheProgramWaitsForReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	servers := redistest.Sentinel(t)
	s := open(t, Options{Client: sentinelClient(t, servers), Timeout: ample, ReplicaTimeout: 100 * time.Millisecond})
	c := stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1, Policy: stint.Policy{Replicas: 2}}
	await(t, func() bool { _, err := s.Take(t.Context(), c); return err == nil })
	c.Policy.Replicas = 3
	_, err := s.Take(t.Context(), c)
	wantError(t, err, stint.CodeUnavailable, "replicas")
	old := servers.Master()
	old.Kill()
	servers.AwaitPromotion(old)
	takes(t, s, "k")
}

// The Cluster gets a new server that the client has not heard of. The store meets it first
// by ASK, while a slot moves there, and then by MOVED.
func TestAClientOfAClusterLearnsOfANewServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	servers := redistest.Cluster(t, 3, 0)
	added := redistest.Server(t, "--cluster-enabled", "yes")
	for _, p := range servers.Nodes {
		p.Must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(added.Port()))
	}
	servers.Nodes = append(servers.Nodes, added)
	servers.AwaitReady()
	client := newClient(t, rueidis.ClientOption{InitAddress: servers.Addrs()[:1]})
	if client.Nodes()[added.Addr()] != nil {
		t.Skip("the client knows the new server already")
	}
	s := open(t, Options{Client: client})
	takes(t, s, "{k}")
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	slot := int(s.slotOfClaim(&stint.Claim{Key: "{k}", Limit: perHour(t, 1000)}))
	servers.BeginMove(slot, added)
	servers.MoveKeys(slot, added)
	takes(t, s, "{k}")
	servers.EndMove(slot, added)
	takes(t, s, "{k}")
	owner := servers.Owner(slot)
	if owner != added {
		t.Fatalf("the slot is on %s", owner.Addr())
	}
	await(t, func() bool {
		return s.Shards().Of(&stint.Claim{Key: "{k}", Limit: perHour(t, 1000)}) == added.Addr() && s.Stats().Up
	})
	d, err := s.Take(t.Context(), stint.Claim{Key: "{k}", Limit: perHour(t, 1000)})
	if err != nil || d.Remaining != 997 {
		t.Errorf("%+v, %v: a charge was lost or repeated", d, err)
	}
}
