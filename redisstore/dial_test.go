package redisstore

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// dialed records the addresses that a store dials.
type dialed struct {
	mu    sync.Mutex
	addrs map[string]int
}

func (d *dialed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	if d.addrs == nil {
		d.addrs = map[string]int{}
	}
	d.addrs[network+" "+address]++
	d.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// wantDialed fails the test unless the store dialed all of these addresses and no other.
func (d *dialed) wantDialed(t *testing.T, addrs ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, addr := range addrs {
		if d.addrs["tcp "+addr] == 0 {
			t.Errorf("%s was not dialed by Dial", addr)
		}
	}
	for addr := range d.addrs {
		if !slices.Contains(addrs, addr[len("tcp "):]) {
			t.Errorf("%s was dialed", addr)
		}
	}
}

// takes charges keys until each is charged once, and fails the test if that takes long.
func takes(t *testing.T, s *Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		await(t, func() bool {
			_, err := s.Take(t.Context(), stint.Claim{Key: key, Limit: perHour(t, 1000), Cost: 1})
			return err == nil
		})
	}
}

func TestDialMakesTheConnections(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server := redistest.Server(t)
		var d dialed
		s := open(t, Options{Addrs: []string{server.Addr()}, Dial: d.dial})
		takes(t, s, "a", "b", "c")
		d.wantDialed(t, server.Addr())
		if n := d.addrs["tcp "+server.Addr()]; n > 3 {
			t.Errorf("%d connections for three checks", n)
		}
	})
	t.Run("tls", func(t *testing.T) {
		server, trusting := redistest.ServerTLS(t)
		var d dialed
		s := open(t, Options{Addrs: []string{server.Addr()}, Dial: d.dial, TLS: trusting})
		takes(t, s, "a")
		d.wantDialed(t, server.Addr())
		s.Shards().Stop("")
		if err := s.Ping(t.Context()); err != nil {
			t.Error("a ping after Stop:", err)
		}
	})
	t.Run("unix socket", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		redistest.Server(t, "--unixsocket", socket)
		s := open(t, Options{Addrs: []string{"redis.invalid:6379"}, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}})
		takes(t, s, "a")
		s.Shards().Stop("")
		s.Shards().Start("")
		takes(t, s, "a")
	})
}

func TestDialMakesTheConnectionsOfClustersAndSentinels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Run("cluster", func(t *testing.T) {
		servers := redistest.Cluster(t, 3, 0)
		var d dialed
		s := open(t, Options{Topology: Cluster, Addrs: servers.Addrs()[:1], Dial: d.dial})
		takes(t, s, "a", "b", "c", "d", "e")
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		d.wantDialed(t, servers.Addrs()...)
	})
	t.Run("sentinel", func(t *testing.T) {
		servers := redistest.Sentinel(t)
		var d dialed
		s := open(t, Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: servers.Name, Dial: d.dial})
		takes(t, s, "a")
		d.wantDialed(t, append(servers.Addrs(), servers.Master().Addr())...)
	})
}

func TestAFailedDialIsReported(t *testing.T) {
	s := open(t, Options{Addrs: []string{"h:1"}, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the tunnel is closed")
	}})
	_, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: perHour(t, 1), Cost: 1})
	wantError(t, err, stint.CodeUnavailable, "connection")
	if e := new(stint.Error); !errors.As(err, &e) || e.Err == nil || e.Err.Error() != "the tunnel is closed" {
		t.Error(err)
	}
}

// A dialer that ignores its context must not hold a check longer than its own time.
func TestASlowDialHoldsNoCheck(t *testing.T) {
	release := make(chan struct{})
	s := open(t, Options{Addrs: []string{"h:1"}, Dial: func(context.Context, string, string) (net.Conn, error) {
		<-release
		return nil, nil //nolint:nilnil // a mistake that must not end the process
	}})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.Take(ctx, stint.Claim{Key: "k", Limit: perHour(t, 1), Cost: 1})
	if took := time.Since(began); err == nil || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// tokens is a source of tokens that is slower than a check may be, and that keeps its token.
type tokens struct {
	calls, concurrent atomic.Int32

	mu    sync.Mutex
	token string
}

func (s *tokens) credentials(ctx context.Context) (username, password string, err error) {
	if s.concurrent.Add(1) > 1 {
		return "", "", errors.New("a second call is in progress")
	}
	defer s.concurrent.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" {
		return "app", s.token, nil
	}
	s.calls.Add(1)
	select {
	case <-time.After(100 * time.Millisecond):
		s.token = "token"
		return "app", s.token, nil
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

// Checks have less time than the source of tokens needs. Their ends do not end the call to
// it, so one of the next checks has a connection.
func TestASlowTokenIsFetchedOnce(t *testing.T) {
	server := redistest.Server(t)
	server.Must("ACL", "SETUSER", "app", "on", ">token", "+@all", "~*", "&*")
	var source tokens
	s := open(t, Options{Addrs: []string{server.Addr()}, Credentials: source.credentials})
	take := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := s.Take(ctx, stint.Claim{Key: "k", Limit: perHour(t, 1000), Cost: 1})
		return err
	}
	await(t, func() bool { return take() == nil })
	source.mu.Lock()
	source.token = "" // expired
	source.mu.Unlock()
	server.Must("CLIENT", "KILL", "USER", "app")
	await(t, func() bool { return take() == nil })
	if n := source.calls.Load(); n != 2 {
		t.Errorf("the token was fetched %d times; want 2", n)
	}
}

func TestCredentialsOfSentinelsAreRotated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	servers := redistest.Sentinel(t)
	var password atomic.Value
	set := func(text string) {
		for _, p := range servers.Watchers {
			p.Must("ACL", "SETUSER", "watcher", "on", "resetpass", ">"+text, "+@all", "~*", "&*")
		}
	}
	o := Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: servers.Name, SentinelCredentials: func(context.Context) (string, string, error) {
		if text, _ := password.Load().(string); text != "" {
			return "watcher", text, nil
		}
		return "", "", errors.New("the vault is sealed")
	}}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	master := func() error {
		_, err := (&sentinels{&dialer{opts: &o}}).master(t.Context())
		return err
	}
	for _, text := range []string{"hidden1", "hidden2"} {
		set(text)
		var e *stint.Error
		if err := master(); !errors.As(err, &e) || e.Code != stint.CodeUnavailable {
			t.Errorf("before the password is known: %v", err)
		}
		password.Store(text)
		if err := master(); err != nil {
			t.Error(err)
		}
	}
}
