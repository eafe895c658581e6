package redisopen_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/redisstore/redisopen"
)

func claim(t *testing.T) stint.Claim {
	t.Helper()
	limit, err := stint.ParseLimit("100000/m")
	if err != nil {
		t.Fatal(err)
	}
	return stint.Claim{Key: "k", Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
}

func TestOpenReturnsAllLayers(t *testing.T) {
	servers := map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string { return "redis://" + redistest.Server(t).Addr() + "/1" },
		"rediss": func(t *testing.T) string {
			server, _ := redistest.ServerTLS(t)
			return "rediss://" + server.Addr() + "?tls_ca=" + server.Dir() + "/CERTIFICATE.pem"
		},
		"redis+unix": func(t *testing.T) string {
			path := redistest.SocketPath(t)
			redistest.Server(t, "--unixsocket", path)
			return "redis+unix://" + path + "?db=1"
		},
	}
	if !testing.Short() {
		servers["redis-cluster"] = func(t *testing.T) string {
			return "redis-cluster://" + strings.Join(redistest.Cluster(t, 3, 0).Addrs(), ",")
		}
		servers["redis-sentinel"] = func(t *testing.T) string {
			s := redistest.Sentinel(t)
			return "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + s.Name
		}
	}
	for scheme, url := range servers {
		t.Run(scheme, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			store, err := redisopen.Open(ctx, url(t), redisopen.Options{Wait: true, Lease: lease.Options{Time: time.Second}})
			cancel() // the store outlives it
			if err != nil {
				t.Fatal(err)
			}
			c := claim(t)
			for range 100 {
				if d, err := store.Take(t.Context(), c); err != nil || !d.Allowed || d.Degraded {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			if s := store.Stats(); s.Lease.Local == 0 || len(s.Guard.Shards) != 1 || s.Guard.Open != 0 || !store.Up() {
				t.Errorf("%+v: no check was decided from a lease, or the guard saw none", s)
			}
			base, ok := store.Base().(*redisstore.Store)
			if !ok || !base.Stats().Up {
				t.Errorf("the base is %T, or down", store.Base())
			}
			if err := store.Close(); err != nil || base.Stats().Up {
				t.Errorf("after Close: %v, connected: %v", err, base.Stats().Up)
			}
		})
	}
}

// The guard stops a server that freezes although the connections are those of a client of the
// program, and finds it again.
func TestTheGuardWorksOverAClientOfTheProgram(t *testing.T) {
	server := redistest.Server(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store, err := redisopen.New(t.Context(), redisstore.Options{Client: client}, redisopen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := claim(t)
	c.Policy = stint.Policy{}
	degraded := func() bool {
		d, err := store.Take(t.Context(), c)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		return d.Degraded
	}
	redistest.Await(t, func() error { return when(degraded(), "the store is not reached") })
	server.Freeze()
	redistest.Await(t, func() error { degraded(); return when(store.Up(), "the breaker is closed") })
	server.Thaw()
	redistest.Await(t, func() error { return when(degraded(), "the store has not recovered") })
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Error("the client after Close of the store:", err)
	}
}

// when returns an error if a condition holds.
func when(holds bool, text string) error {
	if holds {
		return errors.New(text)
	}
	return nil
}

func TestOpenNeedsNoServer(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	store, err := redisopen.Open(ended, "redis://127.0.0.1:1", redisopen.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := store.Take(t.Context(), claim(t)); err != nil || !d.Allowed || !d.Degraded {
		t.Errorf("%+v, %v", d, err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestWaitReportsWhyTheServerServesNoCheck(t *testing.T) {
	server := redistest.Server(t, "--requirepass", "right")
	for name, c := range map[string]struct{ url, kind string }{
		"nobody listens": {"redis://:hidden@127.0.0.1:1", "connection"},
		"wrong password": {"redis://:hidden@" + server.Addr(), "noauth"},
	} {
		var err error
		var e *stint.Error
		for _, patience := range []time.Duration{300 * time.Millisecond, 2 * time.Second, 10 * time.Second} { // a busy host connects late
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, err = redisopen.Open(ctx, c.url, redisopen.Options{Wait: true})
			cancel()
			if errors.As(err, &e) && string(e.Kind) == c.kind {
				break
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || string(e.Kind) != c.kind || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v; want kind %s, and no password", name, err, c.kind)
		}
	}
}

func TestWrongURLsAndOptionsAreRefused(t *testing.T) {
	for _, url := range []string{"", "memory", "stint://h", "redis://:hidden@h:1/x", "redis://a,b", "redis-sentinel://:hidden@h", "redis+unix://:hidden@h/s", "redis+unix://"} {
		store, err := redisopen.Open(t.Context(), url, redisopen.Options{})
		var e *stint.Error
		if store != nil || !errors.As(err, &e) || e.Code != stint.CodeInvalid || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if store, err := redisopen.Open(t.Context(), "redis://:hidden@h", redisopen.Options{Lease: lease.Options{MaxKeys: -1}}); store != nil || err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}

// The example assembles a client, a guard and leases in at most eight lines: Open, its
// error, and Close.
func TestTheExampleIsShort(t *testing.T) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "example_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	run, ok := f.Scope.Lookup("run").Decl.(*ast.FuncDecl)
	if !ok {
		t.Fatal("the example has no function run")
	}
	assembly := run.Body.List[:3]
	if _, closes := assembly[2].(*ast.DeferStmt); !closes {
		t.Fatal("the third statement is not the deferred Close")
	}
	if lines := files.Position(assembly[2].End()).Line - files.Position(assembly[0].Pos()).Line + 1; lines > 8 {
		t.Errorf("%d lines", lines)
	}
}
