package redisstore

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
)

// watched has clocks and their log.
type watched struct {
	clocks clocks
	dialer *dialer
	text   logText
	steady time.Duration
}

func newWatchedClocks(own bool) *watched {
	w := &watched{}
	o := &Options{}
	if own {
		o.Clock = func() int64 { return 0 }
	}
	w.dialer = &dialer{opts: o, log: slog.New(slog.NewTextHandler(&w.text, nil))}
	return w
}

// beat compares the clocks a second later, when the store's clock is ahead by skew.
func (w *watched) beat(ahead, unsure time.Duration) {
	w.steady += time.Second
	w.clocks.compare(w.dialer, reading{store: 1e18 + w.steady + ahead, steady: w.steady, skew: ahead, unsure: unsure})
}

// Each backward jump of the store's clock is logged.
func TestWarnsOfStoreClockThatGoesBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		ahead  []time.Duration
		unsure time.Duration
		want   int
	}{
		{"steady", []time.Duration{0, 0, 0}, 0, 0},
		{"forward", []time.Duration{0, time.Hour, time.Hour}, 0, 0},
		{"back", []time.Duration{0, -time.Second, -time.Second, -time.Second}, 0, 1},
		{"back twice", []time.Duration{0, -time.Second, -2 * time.Second}, 0, 2},
		{"forward and back", []time.Duration{0, time.Minute, 0}, 0, 1},
		{"a little", []time.Duration{0, -99 * time.Millisecond}, 0, 0},
		{"drifting", []time.Duration{0, -50 * time.Millisecond, -100 * time.Millisecond, -150 * time.Millisecond, -200 * time.Millisecond}, 0, 0},
		{"perhaps", []time.Duration{0, -150 * time.Millisecond}, 30 * time.Millisecond, 0},
		{"surely", []time.Duration{0, -160 * time.Millisecond}, 30 * time.Millisecond, 1},
		{"ahead from the start", []time.Duration{-time.Hour, -time.Hour}, 0, 0},
	} {
		w := newWatchedClocks(false)
		for _, ahead := range c.ahead {
			w.beat(ahead, c.unsure)
		}
		if n := w.text.count("went back"); n != c.want || w.text.count("level=") != c.want {
			t.Errorf("%s: %d lines, want %d:\n%s", c.name, n, c.want, &w.text.text)
		}
	}
}

// A node that decides by its own clock logs when the clock is off, and when it is right
// again. Other nodes do not.
func TestWarnsOfNodeClockThatIsOff(t *testing.T) {
	for _, off := range []time.Duration{150 * time.Millisecond, -150 * time.Millisecond, time.Hour, -time.Hour} {
		w := newWatchedClocks(true)
		for range 3 {
			w.beat(off, 10*time.Millisecond)
		}
		if w.text.count("differs from the store's") != 1 || w.text.count("node_ahead="+(-off).String()) != 1 {
			t.Errorf("off by %v:\n%s", off, &w.text.text)
		}
		w.beat(40*time.Millisecond, 0)
		w.beat(0, 0)
		if w.text.count("in step with the store's again") != 1 {
			t.Errorf("off by %v, and right again:\n%s", off, &w.text.text)
		}
	}
	w := newWatchedClocks(true)
	w.beat(105*time.Millisecond, 10*time.Millisecond)
	if w.text.count("level=") > 0 {
		t.Errorf("a slow round trip:\n%s", &w.text.text)
	}
	w = newWatchedClocks(false)
	w.beat(time.Hour, 0)
	w.beat(time.Hour, 0)
	if w.text.count("level=") > 0 {
		t.Errorf("by the store's clock:\n%s", &w.text.text)
	}
}

func TestNodeClockIsComparedWithTheStores(t *testing.T) {
	server := redistest.Server(t)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		text := &logText{}
		store := open(t, Options{
			Addrs: []string{server.Addr()}, Heartbeat: testBeat, Logger: slog.New(slog.NewTextHandler(text, nil)),
			Clock: func() int64 { return time.Now().Add(ahead).UnixMicro() },
		})
		eventually(t, "it has been measured", func() bool { return store.Stats().Nodes > 0 })
		if ahead == 0 {
			continue // on a busy machine a slow round trip looks like a skew
		}
		eventually(t, "it is told", func() bool { return text.count("node_ahead=") == 1 })
	}
}
