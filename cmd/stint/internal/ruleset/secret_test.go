package ruleset

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/rule"
)

// secretFleet is a source whose secret the test removes or replaces.
type secretFleet struct {
	canaryFleet

	mu   sync.Mutex
	text string // guarded by mu
	err  error  // guarded by mu
	asks int    // guarded by mu
}

func (f *secretFleet) Secret(_ context.Context, proposed string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks++
	if f.text == "" && f.err == nil {
		f.text = proposed
	}
	return f.text, f.err
}

func (f *secretFleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asks
}

func (f *secretFleet) set(text string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text, f.err = text, err
}

func TestNodesKeepTheSecretThatTheyShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		fleet := &secretFleet{err: errors.New("down")}
		var heard []string
		logs := &bytes.Buffer{}
		m := NewManager(Options{Source: fleet, OnSet: func(*rule.Set, Version) {}, OnSecret: func(text string) { heard = append(heard, text) },
			Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		done := make(chan struct{})
		go func() { m.Run(ctx); close(done) }()
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		pass(2*secretEvery + 4*AnnounceEvery)
		if len(heard) != 0 {
			t.Fatalf("%q while the source is down", heard)
		}
		if n := strings.Count(logs.String(), "cannot get the secret of all nodes"); n != 1 {
			t.Errorf("%d warnings of one failure:\n%s", n, logs)
		}
		if n := fleet.count(); n != 6 { // at 0, 5, 15, 35, 75 and 135 s
			t.Errorf("%d attempts while the source is down", n)
		}
		fleet.set("", nil)
		pass(secretEvery + AnnounceEvery)
		if len(heard) != 1 || CheckSecret(heard[0]) != nil {
			t.Fatalf("%q from an empty source", heard)
		}
		fleet.set("", nil) // it has lost everything, and gets the same secret back
		pass(secretEvery + AnnounceEvery)
		if len(heard) != 1 || fleet.text != heard[0] {
			t.Errorf("%q from a source that was emptied", heard)
		}
		fleet.set("the secret of another node", nil)
		pass(secretEvery + AnnounceEvery)
		if len(heard) != 2 || heard[1] != "the secret of another node" {
			t.Errorf("%q from a source with another secret", heard)
		}
		stop()
		<-done
		if strings.Contains(logs.String(), fleet.text) || strings.Contains(logs.String(), heard[0]) {
			t.Errorf("a secret is in the log:\n%s", logs)
		}
	})
}
