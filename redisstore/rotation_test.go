package redisstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// rotate changes the password of a store's user on all servers and cuts the store's
// connections, as a careful operator would. It does so twice: at first the store does not
// know the new password.
func rotate(t *testing.T, o Options, servers []*redistest.Process) {
	t.Helper()
	set := func(password string) {
		for _, p := range servers {
			p.Must("ACL", "SETUSER", "app", "on", "resetpass", ">"+password, "+@all", "~*", "&*")
			p.Must("CLIENT", "KILL", "USER", "app")
		}
	}
	set("first")
	var password atomic.Value
	password.Store("first")
	o.Credentials = func(context.Context) (string, string, error) {
		if text, ok := password.Load().(string); ok && text != "" {
			return "app", text, nil
		}
		return "", "", errors.New("the vault is sealed")
	}
	s := open(t, o)
	take := func() error {
		_, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: perHour(t, 1000), Cost: 1})
		return err
	}
	await(t, func() bool { return take() == nil })
	for _, next := range []string{"second", "third"} {
		set(next)
		await(t, func() bool {
			var e *stint.Error
			return errors.As(take(), &e) && e.Kind == "noauth" && e.Code == stint.CodeUnavailable
		})
		password.Store(next)
		await(t, func() bool { return take() == nil })
	}
	if err := take(); err != nil {
		t.Errorf("after the last password: %v", err)
	}
	set("fourth")
	password.Store("")
	await(t, func() bool {
		var e *stint.Error
		return errors.As(take(), &e) && e.Code == stint.CodeUnavailable && strings.Contains(e.Error(), "the vault is sealed")
	})
}

func TestPasswordsAreRotated(t *testing.T) {
	p := redistest.Server(t)
	rotate(t, Options{Addrs: []string{p.Addr()}}, []*redistest.Process{p})
}

func TestPasswordsAreRotatedOnAClusterAndBehindSentinels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := redistest.Cluster(t, 3, 0)
	rotate(t, Options{Topology: Cluster, Addrs: c.Addrs()}, c.Nodes)
	s := redistest.Sentinel(t)
	rotate(t, Options{Topology: Sentinel, Addrs: s.Addrs(), Master: s.Name}, s.Servers)
}

// TestPasswordsOfSentinelsAreRotated changes the password of the sentinels.
func TestPasswordsOfSentinelsAreRotated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	servers := redistest.Sentinel(t)
	set := func(password string) {
		for _, p := range servers.Watchers {
			p.Must("ACL", "SETUSER", "app", "on", "resetpass", ">"+password, "+@all", "~*", "&*")
		}
	}
	set("hidden1")
	file := filepath.Join(t.TempDir(), "password")
	replace(t, file, []byte("hidden1"))
	o, err := ParseURL("redis-sentinel://" + strings.Join(servers.Addrs(), ",") + "/" + servers.Name + "?sentinel_username=app&sentinel_password_file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	master := func() error {
		d := &dialer{opts: &o, log: slog.New(slog.DiscardHandler)}
		_, err := (&sentinels{d}).master(t.Context())
		return err
	}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	if err := master(); err != nil {
		t.Fatal(err)
	}
	set("hidden2")
	var e *stint.Error
	if err := master(); !errors.As(err, &e) || e.Kind != "noauth" || strings.Contains(err.Error(), "hidden") {
		t.Errorf("with the old password: %v", err)
	}
	replace(t, file, []byte("hidden2"))
	if err := master(); err != nil {
		t.Error(err)
	}
	for _, query := range []string{"?sentinel_password_file=" + file + ".none", "?sentinel_password=x&sentinel_password_file=" + file} {
		if _, err := ParseURL("redis-sentinel://h/m" + query); err == nil {
			t.Errorf("%s is accepted", query)
		}
	}
}

// An error hides the rotated password, although servers repeat arguments.
func TestNoErrorShowsARotatedPassword(t *testing.T) {
	o := Options{Addrs: []string{"h:1"}, Timeout: time.Second, Credentials: func(context.Context) (string, string, error) { return "app", "hidden", nil }}
	d := &dialer{opts: &o}
	option := d.clientOption(newConn("h:1"), 0, d.serverLogin, &d.login)
	if _, err := option.DialCtxFn(t.Context(), "127.0.0.1:1", &net.Dialer{}, nil); err == nil {
		t.Fatal("something listens on port 1")
	}
	if l, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{}); l.Username != "app" || l.Password != "hidden" || err != nil {
		t.Fatal(l, err)
	}
	if said := d.explain(errors.New("ERR what is hidden here"), "h:1").Error(); strings.Contains(said, "hidden") {
		t.Error(said)
	}
	if shown := o.String(); !strings.Contains(shown, "***@h:1") {
		t.Error(shown)
	}
}

// The server gets a certificate of another authority, and then the file that the URL names
// gets that authority.
func TestAuthoritiesAreReadAgain(t *testing.T) {
	p, _ := redistest.ServerTLS(t)
	other, _ := redistest.ServerTLS(t)
	folder := t.TempDir()
	ca := filepath.Join(folder, "ca.pem")
	replace(t, ca, read(t, filepath.Join(other.Dir(), "CERTIFICATE.pem")))
	o, err := ParseURL("rediss://" + p.Addr() + "?tls_ca=" + ca)
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedLog{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	s := open(t, o)
	take := func() error {
		_, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: perHour(t, 1000), Cost: 1})
		return err
	}
	await(t, func() bool {
		var e *stint.Error
		return errors.As(take(), &e) && e.Kind == "tls"
	})
	replace(t, ca, []byte("no certificate"))
	await(t, func() bool { _ = take(); return strings.Contains(log.String(), "secret file rejected") })
	replace(t, ca, read(t, filepath.Join(p.Dir(), "CERTIFICATE.pem")))
	await(t, func() bool { return take() == nil })
	if !strings.Contains(log.String(), "secret file reloaded") || !strings.Contains(log.String(), ca) {
		t.Error(log.String())
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".next", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
