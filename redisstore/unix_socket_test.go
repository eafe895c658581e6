package redisstore

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

func openURL(t *testing.T, url string) *Store {
	t.Helper()
	o, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, o)
}

func TestChecksGoThroughAUnixSocket(t *testing.T) {
	path := redistest.SocketPath(t)
	server := redistest.Server(t, "--unixsocket", path)
	server.Must("CONFIG", "SET", "requirepass", "p/w")
	s := openURL(t, "redis+unix://:p%2Fw@"+path+"?db=3")
	c := stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1}
	if d, err := s.Take(t.Context(), c); err != nil || d.Remaining != 9 {
		t.Fatalf("%+v, %v", d, err)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, Password: "p/w", SelectDB: 3, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if keys, err := client.Do(t.Context(), client.B().Keys().Pattern("stint:{k}*").Build()).AsStrSlice(); err != nil || len(keys) != 1 || !s.Stats().Up {
		t.Errorf("up: %v, keys in database 3: %q, %v", s.Stats().Up, keys, err)
	}
	server.Restart() // empty, and without a password
	redistest.Await(t, func() error {
		_, err := s.Take(t.Context(), c)
		return err
	})
}

func TestAClientOfTheProgramMayUseAUnixSocket(t *testing.T) {
	path := redistest.SocketPath(t)
	redistest.Server(t, "--unixsocket", path)
	client, err := rueidis.NewClient(rueidis.MustParseURL("unix://" + path))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := open(t, Options{Client: client})
	if d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1}); err != nil || d.Remaining != 9 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAnUnusableUnixSocketNamesTheMend(t *testing.T) {
	path := redistest.SocketPath(t)
	fails := func(url, want string) {
		t.Helper()
		s := openURL(t, url)
		_, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1})
		var e *stint.Error
		if !errors.As(err, &e) || e.Code != stint.CodeUnavailable || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), inURL) {
			t.Errorf("%s: %v; want %q", url, err, want)
		}
	}
	fails("redis+unix://:"+inURL+"@"+path, "check that the server runs, and that unixsocket in its settings is this path")
	server := redistest.Server(t, "--unixsocket", path, "--unixsocketperm", "700", "--requirepass", "right")
	fails("redis+unix://:"+inURL+"@"+path, "password")
	if os.Geteuid() == 0 {
		t.Skip("every socket is open to this user")
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err, server.Log())
	}
	fails("redis+unix://"+path, "unixsocketperm 770")
}

func TestAFrozenServerBehindAUnixSocketIsTooLate(t *testing.T) {
	path := redistest.SocketPath(t)
	server := redistest.Server(t, "--unixsocket", path)
	s := openURL(t, "redis+unix://"+path+"?timeout=300ms")
	c := stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1}
	if _, err := s.Take(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	began := time.Now()
	_, err := s.Take(t.Context(), c)
	if took := time.Since(began); err == nil || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	server.Thaw()
	redistest.Await(t, func() error {
		_, err := s.Take(t.Context(), c)
		return err
	})
}
