package quorumstore

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logged keeps the lines of a log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// since returns the lines since the last call.
func (l *logged) since() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	l.text.Reset()
	return text
}

// The log says once why a server is not used, and when it is used again.
func TestTheLogSaysWhichServerIsNotUsed(t *testing.T) {
	t.Parallel()
	logs(t, func(s *simulation, n *simNode, told func(want ...string)) {
		told()
		n.setCut(1)
		told(`not used" server=s1`)
		n.setCut()
		told(`used again" server=s1`)
		s.servers[2].leap(1500 * time.Millisecond)
		told("the clock of s2 is more than a second off")
		s.servers[2].leap(-700 * time.Millisecond)
		told(`used again" server=s2`)
		s.servers[2].leap(time.Hour)
		told("the clock of s2 ran back, or was far ahead")
	})
}

// A server that answers, and refuses every call, is not called used.
func TestTheLogSaysWhichServerRefuses(t *testing.T) {
	t.Parallel()
	const again, whole = `used again" server=`, `knows all charges again" server=`
	logs(t, func(s *simulation, n *simNode, told func(want ...string)) {
		setList := func(list uint64) {
			s.servers[1].mu.Lock()
			defer s.servers[1].mu.Unlock()
			s.servers[1].mark.members = list
		}
		setList(n.backend.hash + 1)
		told("s1 has another list of members")
		setList(n.backend.hash)
		told(again + "s1")
		n.setCut(2)
		told(`not used" server=s2`)
		n.setCut(1, 2)
		s.servers[1].restart(false)
		told(`not used" server=s1`)
		n.setCut(2) // it cannot be born before the third one is there
		told("s1 is not a member yet")
		n.setCut()
		told(again+"s1", again+"s2", whole+"s1")
		n.setCut(2)
		told(`not used" server=s2`)
		s.servers[1].leap(-2 * time.Second)
		told("the clock of s1 ran back")
		s.servers[1].leap(2 * time.Second)
		told()
		n.setCut()
		told(again+"s1", again+"s2", whole+"s1")
	})
}

// While a majority is down, nothing is known about the clocks.
func TestTheLogBlamesNoClockWithoutAMajority(t *testing.T) {
	t.Parallel()
	logs(t, func(_ *simulation, n *simNode, told func(want ...string)) {
		n.setCut(1, 2)
		told(`not used" server=s1`, `not used" server=s2`)
		n.setCut()
		told(`used again" server=s1`, `used again" server=s2`)
	})
}

// logs runs a script with a node that maintains the quorum since the begin of the script. told waits,
// and fails unless the log has one line for each text since the last call.
func logs(t *testing.T, script func(s *simulation, n *simNode, told func(want ...string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(1, 3, rules{}, 0)
		s.steady = true
		s.found(t)
		s.calm.Store(true)
		var log logged
		n := s.addNode()
		n.backend.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		var maintained sync.Once
		script(s, n, func(want ...string) {
			t.Helper()
			maintained.Do(func() { go n.backend.maintain(ctx) })
			elapse(20 * time.Second)
			got := log.since()
			for _, w := range want {
				if strings.Count(got, w) != 1 {
					t.Errorf("%q is not logged once: %s", w, got)
				}
			}
			if lines := strings.Count(got, "\n"); lines != len(want) {
				t.Errorf("%d lines: %s", lines, got)
			}
		})
		cancel()
		closeAll(s)
	})
}
