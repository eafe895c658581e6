package redisstore

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// logText is a log that is safe for concurrent use.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// limiterOn makes a user that lacks some permissions, and a store of that user.
func limiterOn(t *testing.T, server *redistest.Process, without ...string) (*Store, *logText) {
	t.Helper()
	server.Must(append([]string{"ACL", "SETUSER", "limiter", "on", ">pw", "~stint:*", "+@all"}, without...)...)
	var text logText
	store := open(t, Options{Addrs: []string{server.Addr()}, Username: "limiter", Password: "pw", Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err := store.Shards().Probe(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return store, &text
}

func TestMissingPermissionsAreNamedAtStart(t *testing.T) {
	server := redistest.Server(t)
	_, text := limiterOn(t, server, "-setrange", "-zadd")
	if text.count(`user=limiter missing="setrange zadd"`) != 1 {
		t.Errorf("the log says:\n%s", &text.text)
	}
	server.Must("ACL", "SETUSER", "limiter", "+@all")
	_, text = limiterOn(t, server)
	if text.count("missing=") != 0 {
		t.Errorf("with all permissions the log says:\n%s", &text.text)
	}
	if left := server.Must("EXISTS", "stint:rights"); left != "0" {
		t.Error("a key is left")
	}
}

// A permission that is revoked while the store is connected is logged once, after a
// check was refused.
func TestRevokedPermissionIsNamedOnce(t *testing.T) {
	server := redistest.Server(t)
	store, text := limiterOn(t, server)
	server.Must("ACL", "SETUSER", "limiter", "-setrange")
	limit := limitOf(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 100, Window: time.Hour})
	take := func() error {
		_, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 1})
		return err
	}
	if err := take(); err != nil { // the first charge sets the key and appends nothing
		t.Fatal(err)
	}
	for range 3 {
		wantError(t, take(), stint.CodeUnavailable, "noperm")
	}
	eventually(t, "the log names the right", func() bool { return text.count("missing=setrange") > 0 })
	if n := text.count("missing="); n != 1 {
		t.Errorf("it is named %d times", n)
	}
}

func TestPermissionsAreCheckedAtAnInterval(t *testing.T) {
	var a aclState
	at := a.next.Add(aclInterval)
	if !a.due(at) || a.due(at.Add(aclInterval-1)) || !a.due(at.Add(aclInterval)) {
		t.Error("not every", aclInterval)
	}
	for _, step := range []struct {
		missing string
		changed bool
	}{{"", false}, {"del", true}, {"del", false}, {"", false}, {"del", true}, {"append del", true}} {
		if got := a.changed(step.missing); got != step.changed {
			t.Errorf("missing %q: changed is %v", step.missing, got)
		}
	}
}

// connected opens a store and returns its log after it has connected to a server.
func connected(t *testing.T, o Options) (*Store, *logText) {
	t.Helper()
	text := &logText{}
	o.Logger = slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store := open(t, o)
	eventually(t, "all servers are connected", func() bool { return store.Stats().Up })
	return store, text
}

const splitBrain = "min_replicas_to_write=0"

// The store warns once of a master with replicas that writes without them, however often
// it connects.
func TestWarnsOfMasterThatWritesWithoutReplicas(t *testing.T) {
	servers := redistest.Sentinel(t)
	o := Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: servers.Name}
	store, text := connected(t, o)
	for range 2 {
		store.Shards().Stop("")
		if err := store.Shards().Probe(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		store.Shards().Start("")
	}
	if n := text.count(splitBrain); n != 1 || text.count("min-replicas-to-write 1") != 1 {
		t.Errorf("%d warnings:\n%s", n, &text.text)
	}
	servers.Master().Must("CONFIG", "SET", "min-replicas-to-write", "1")
	warnings := 0
	if _, major, _ := redistest.Version(t); major < 7 {
		warnings = 1 // such a server does not apply the setting to scripts
	}
	if _, text := connected(t, o); text.count("level=WARN") != warnings || text.count("does not apply that setting to scripts") != warnings {
		t.Errorf("with min-replicas-to-write 1 the log says:\n%s", &text.text)
	}
	if _, text := connected(t, Options{Addrs: []string{redistest.Server(t).Addr()}}); text.count("level=WARN") != 0 {
		t.Errorf("without replicas the log says:\n%s", &text.text)
	}
}

// Where CONFIG is forbidden, as on managed services, the store warns of nothing and
// serves checks.
func TestServerWithoutConfigIsServed(t *testing.T) {
	for name, o := range map[string]struct {
		server  []string
		without []string
	}{
		"no right":   {nil, []string{"-config", "-info"}},
		"no command": {[]string{"--rename-command", "CONFIG", ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Server(t, o.server...)
			server.Must(append([]string{"ACL", "SETUSER", "limiter", "on", ">pw", "~stint:*", "+@all"}, o.without...)...)
			store, text := connected(t, Options{Addrs: []string{server.Addr()}, Username: "limiter", Password: "pw"})
			if _, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1}); err != nil {
				t.Error(err)
			}
			if text.count("level=WARN") != 0 || text.count("CONFIG GET is refused") != 1 {
				t.Errorf("the log says:\n%s", &text.text)
			}
		})
	}
}

// The store warns of a cluster that stops altogether when one master fails: once for
// each server, and only on a Cluster.
func TestWarnsOfClusterThatStopsAltogether(t *testing.T) {
	servers := redistest.Cluster(t, 3, 0)
	for _, p := range servers.Nodes {
		p.Must("CONFIG", "SET", "cluster-require-full-coverage", "yes")
	}
	const warning = "cluster_require_full_coverage=yes"
	o := Options{Topology: Cluster, Addrs: servers.Addrs()[:1]}
	if _, text := connected(t, o); text.count(warning) == 0 {
		t.Errorf("the log says:\n%s", &text.text)
	}
	for _, p := range servers.Nodes {
		p.Must("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	if _, text := connected(t, o); text.count(warning) != 0 {
		t.Errorf("without it the log says:\n%s", &text.text)
	}
}
