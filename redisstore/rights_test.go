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

// logText is a log that may be read while it is written.
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

// limiterOn makes a user with all rights but some, and a store of that user.
func limiterOn(t *testing.T, server *redistest.Process, without ...string) (*Store, *logText) {
	t.Helper()
	server.Must(append([]string{"ACL", "SETUSER", "limiter", "on", ">pw", "~stint:*", "+@all"}, without...)...)
	var text logText
	store := open(t, Options{Addrs: []string{server.Addr()}, Username: "limiter", Password: "pw", Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err := store.Probe(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return store, &text
}

func TestMissingRightsAreNamedAtStart(t *testing.T) {
	server := redistest.Server(t)
	_, text := limiterOn(t, server, "-setrange", "-zadd")
	if text.count(`user=limiter missing="setrange zadd"`) != 1 {
		t.Errorf("the log says:\n%s", &text.text)
	}
	server.Must("ACL", "SETUSER", "limiter", "+@all")
	_, text = limiterOn(t, server)
	if text.count("missing=") != 0 {
		t.Errorf("with all rights the log says:\n%s", &text.text)
	}
	if left := server.Must("EXISTS", "stint:rights"); left != "0" {
		t.Error("a key is left")
	}
}

// A right that is taken while the store is connected shows when a check is
// refused, once.
func TestRightTakenLaterIsNamedOnce(t *testing.T) {
	server := redistest.Server(t)
	store, text := limiterOn(t, server)
	server.Must("ACL", "SETUSER", "limiter", "-setrange")
	limit := limitOf(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 100, Window: time.Hour})
	take := func() error {
		_, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: limit, Cost: 1})
		return err
	}
	if err := take(); err != nil { // the first run is set, not written behind others
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

func TestRightsAreLookedAtNowAndThen(t *testing.T) {
	var r rights
	at := r.next.Add(rightsEvery)
	if !r.due(at) || r.due(at.Add(rightsEvery-1)) || !r.due(at.Add(rightsEvery)) {
		t.Error("not every", rightsEvery)
	}
	for _, step := range []struct {
		missing string
		news    bool
	}{{"", false}, {"del", true}, {"del", false}, {"", false}, {"del", true}, {"append del", true}} {
		if got := r.news(step.missing); got != step.news {
			t.Errorf("missing %q is news: %v", step.missing, got)
		}
	}
}
