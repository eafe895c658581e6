package emergency

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shared is a source in memory that nodes share. Its clock is skew ahead of that of the nodes.
type shared struct {
	mu     sync.Mutex
	skew   time.Duration
	record Record
	down   bool
	lost   bool // the answer of the next switching is lost
}

var errDown = errors.New("connection refused")

func (s *shared) now() time.Time { return time.Now().Add(s.skew) }

func (s *shared) Emergency(context.Context) (Record, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.record.Until.Sub(s.now())
	switch {
	case s.down:
		return Record{}, 0, errDown
	case left <= 0:
		return Record{}, 0, nil
	}
	return s.record, left, nil
}

func (s *shared) SwitchEmergency(_ context.Context, r Record, d time.Duration, after string) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return r, errDown
	case after == NoRecord && s.record.Until.After(s.now()), after != "" && after != NoRecord && after != s.record.Revision:
		return r, ErrChanged
	}
	r.Since, r.Until = s.now(), s.now().Add(d)
	s.record = r
	if s.lost {
		s.lost = false
		return r, errDown
	}
	return r, nil
}

func (s *shared) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// node is a switch that runs.
type node struct {
	*Switch

	t       *testing.T
	logs    *bytes.Buffer
	inForce *State
}

func startNode(t *testing.T, source Source, file string) *node {
	t.Helper()
	n := &node{t: t, logs: &bytes.Buffer{}}
	n.Switch = New(Options{
		Source: source, File: file, Logger: slog.New(slog.NewTextHandler(n.logs, nil)),
		Use: func(s *State) error { n.inForce = s; return nil },
	})
	n.Start(t.Context(), true)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return n
}

func (n *node) set(c Change) Status {
	n.t.Helper()
	_, is, err := n.Set(n.t.Context(), c)
	if err != nil {
		n.t.Error(err)
	}
	return is
}

func (n *node) want(when, limit string) {
	n.t.Helper()
	got := ""
	if n.mu.Lock(); n.Switch.inForce.Revision != "" {
		got = n.Switch.inForce.Limit
	}
	used := n.inForce != nil
	n.mu.Unlock()
	if got != limit || used != (limit != "") {
		n.t.Errorf("%s: %q is in force, want %q; used: %v", when, got, limit, used)
	}
}

func on(limit string, d time.Duration) Change {
	return Change{On: true, Limit: limit, By: "ip", For: d, Author: "vera", Reason: "flood"}
}

func TestEveryNodeObeysWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{skew: 3 * time.Minute}
		a, b := startNode(t, source, ""), startNode(t, source, "")
		if is := a.set(on("10/s", 10*time.Minute)); !is.Shared || is.SourceErr != nil {
			t.Errorf("%+v", is)
		}
		a.want("the node that is called", "10/s")
		time.Sleep(2 * time.Second)
		b.want("the other within 2 s", "10/s")
		b.set(on("5/s", 10*time.Minute))
		time.Sleep(2 * time.Second)
		a.want("replaced by another operator", "5/s")
		a.set(Change{Author: "olga"})
		a.want("off", "")
		time.Sleep(2 * time.Second)
		b.want("off", "")
		if log := b.logs.String(); !strings.Contains(log, `"emergency off" limit=5/s by=ip who=olga`) || !strings.Contains(log, "who=vera reason=flood") {
			t.Error(log)
		}
	})
}

// Of two operators who see no emergency, on two nodes, one is told that the other was faster.
func TestOnlyOneOfTwoSwitchesAnEmergencyOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{}
		a, b := startNode(t, source, ""), startNode(t, source, "")
		first, second := on("10/s", 10*time.Minute), on("5/s", 10*time.Minute)
		first.IfOff, second.IfOff = true, true
		for range 1000 { // from the second round on the source has the record that switched off, and b reads it at any time
			a.set(first)
			if _, _, err := b.Set(t.Context(), second); !errors.Is(err, ErrChanged) {
				t.Error("the other node has not read the record yet:", err)
			}
			time.Sleep(2 * time.Second)
			b.want("the first", "10/s")
			if _, _, err := b.Set(t.Context(), second); !errors.Is(err, ErrChanged) {
				t.Error("one is on:", err)
			}
			a.set(Change{Author: "olga"})
			time.Sleep(2 * time.Second)
		}
		source.setDown(true)
		if is := b.set(second); is.SourceErr == nil || is.Limit != "5/s" {
			t.Errorf("the node is switched alone: %+v", is)
		}
	})
}

func TestAnEmergencyEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{skew: -time.Hour}
		a, b, alone := startNode(t, source, ""), startNode(t, source, ""), startNode(t, nil, "")
		for _, n := range []*node{a, alone} {
			n.set(on("10/s", time.Minute))
		}
		time.Sleep(2 * time.Second)
		source.setDown(true) // nodes end it without the source
		time.Sleep(57 * time.Second)
		for _, n := range []*node{a, b, alone} {
			n.want("a second before the end", "10/s")
		}
		time.Sleep(time.Second + time.Millisecond)
		for _, n := range []*node{a, b, alone} {
			n.want("after the end", "")
			if !strings.Contains(n.logs.String(), "emergency ended at its time") {
				t.Error(n.logs)
			}
		}
	})
}

func TestWithoutItsSourceANodeIsSwitchedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{}
		a, b := startNode(t, source, ""), startNode(t, source, "")
		a.set(on("10/s", time.Hour))
		time.Sleep(2 * time.Second)
		source.setDown(true)
		if is := b.set(on("1/s", time.Hour)); is.Shared || !errors.Is(is.SourceErr, errDown) {
			t.Errorf("%+v", is)
		}
		time.Sleep(5 * time.Second)
		a.want("not told", "10/s")
		b.want("switched alone", "1/s")
		if !strings.Contains(b.logs.String(), `does not take the switching, so only this node obeys" error="connection refused"`) {
			t.Error(b.logs)
		}
		a.set(Change{})
		a.want("switched off alone", "")
		source.setDown(false)
		time.Sleep(5 * time.Second)
		a.want("the source has nothing new", "")
		b.want("the source has nothing new", "1/s")
		a.set(on("2/s", time.Hour))
		time.Sleep(2 * time.Second)
		a.want("switched through the source", "2/s")
		b.want("a switching through the source replaces its own", "2/s")
	})
}

// A node that starts while its source is down learns of an older switching later.
func TestAnOlderRecordDoesNotEndANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{}
		startNode(t, source, "").set(Change{})
		time.Sleep(time.Minute)
		source.setDown(true)
		b := startNode(t, source, "")
		b.set(on("1/s", time.Hour))
		source.setDown(false)
		time.Sleep(5 * time.Second)
		b.want("the record of the source is older", "1/s")
	})
}

// The clocks of a node and of its source differ. That matters only for the first answer of the
// source: a later record is newer, whatever its time says.
func TestANewRecordReplacesWhateverItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{skew: -time.Hour}
		b := startNode(t, source, "")
		source.setDown(true)
		b.set(on("1/s", 2*time.Hour))
		source.setDown(false)
		time.Sleep(5 * time.Second)
		b.want("the source has nothing new", "1/s")
		startNode(t, source, "").set(on("9/s", time.Hour))
		time.Sleep(2 * time.Second)
		b.want("switched through the source", "9/s")
	})
}

// A node that knows a record from its file compares as well.
func TestAnOlderRecordDoesNotEndANewerOneAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, file := &shared{}, filepath.Join(t.TempDir(), "emergency.state")
		startNode(t, source, file).set(on("5/s", time.Hour))
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		startNode(t, source, "").set(on("6/s", time.Hour))
		time.Sleep(time.Minute)
		source.setDown(true)
		again := filepath.Join(t.TempDir(), "emergency.state")
		if err := os.WriteFile(again, data, 0o600); err != nil {
			t.Fatal(err)
		}
		b := startNode(t, source, again)
		b.want("by the file", "5/s")
		b.set(on("1/s", time.Hour))
		source.setDown(false)
		time.Sleep(2 * time.Second)
		b.want("the record of the source is older", "1/s")
	})
}

// The log has one line for an outage of the source, and none for a call that fails alone.
func TestASourceThatFailsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{}
		a := startNode(t, source, "")
		for _, c := range []struct {
			down          time.Duration
			warned, again int
		}{{1500 * time.Millisecond, 0, 0}, {time.Minute, 1, 1}, {time.Minute, 2, 2}} {
			source.setDown(true)
			time.Sleep(c.down)
			source.setDown(false)
			time.Sleep(2 * time.Second)
			a.mu.Lock()
			log := a.logs.String()
			a.mu.Unlock()
			if strings.Count(log, "does not say whether one is on") != c.warned || strings.Count(log, "answers again") != c.again {
				t.Errorf("down for %v: %s", c.down, log)
			}
		}
	})
}

func TestALostAnswerIsLearntFromTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{lost: true}
		a := startNode(t, source, "")
		if is := a.set(on("1/s", time.Hour)); is.SourceErr == nil {
			t.Errorf("%+v", is)
		}
		a.want("at once", "1/s")
		time.Sleep(2 * time.Second)
		if is := a.Status(); !is.Shared || is.SourceErr != nil || is.Limit != "1/s" {
			t.Errorf("%+v", is)
		}
	})
}

func TestARestartKeepsTheEmergency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "rules", "emergency.state")
		a := startNode(t, nil, file)
		a.set(on("10/s", time.Minute))
		time.Sleep(30 * time.Second)
		startNode(t, nil, file).want("after a restart", "10/s")
		time.Sleep(31 * time.Second)
		startNode(t, nil, file).want("after its end", "")

		source := &shared{}
		startNode(t, source, file).set(on("7/s", time.Minute))
		source.setDown(true)
		startNode(t, source, file).want("after a restart without the source", "7/s")

		for text, warns := range map[string]bool{
			"no JSON": true, "{}": false,
			`{"own":{"revision":"r","on":true,"limit":"0/s","by":"ip","ends":"2999-01-01T00:00:00Z"}}`: true,
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			n := startNode(t, nil, file)
			n.want(text, "")
			if strings.Contains(n.logs.String(), "cannot be read") != warns {
				t.Errorf("%s: %s", text, n.logs)
			}
		}
		if err := os.WriteFile(file, []byte(`{"own":{"revision":"r","on":true,"limit":"1/s","by":"ip","ends":"2999-01-01T00:00:00Z"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		n := startNode(t, nil, file)
		n.want("an end beyond the bound", "1/s")
		time.Sleep(MaxDuration + time.Second)
		n.want("after the greatest duration", "")
	})
}

func TestAChangeThatIsBasedOnAnotherStateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &shared{}
		a, b := startNode(t, source, ""), startNode(t, source, "")
		seen := a.set(on("10/s", time.Hour)).Revision
		b.set(on("5/s", time.Hour))
		change := on("1/s", time.Hour)
		change.After = seen
		if _, is, err := a.Set(t.Context(), change); !errors.Is(err, ErrChanged) || is.Limit != "10/s" {
			t.Errorf("%v %+v", err, is)
		}
		time.Sleep(2 * time.Second)
		a.want("the other operator's", "5/s")
		if _, _, err := a.Set(t.Context(), change); !errors.Is(err, ErrChanged) {
			t.Error(err)
		}
		alone := func() (revision string) {
			source.setDown(true)
			defer source.setDown(false)
			change.After = a.Status().Revision
			return a.set(change).Revision
		}
		change.After = alone()
		if is := a.set(change); !is.Shared {
			t.Errorf("%+v", is)
		}
		time.Sleep(2 * time.Second)
		change.After = alone()
		b.set(on("9/s", time.Hour))
		if _, _, err := a.Set(t.Context(), change); !errors.Is(err, ErrChanged) {
			t.Errorf("after a switching of this node alone: %v", err)
		}
		time.Sleep(2 * time.Second)
		a.want("what every node obeys", "9/s")
	})
}

func TestAStateThatCannotBeUsedIsNotInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, nil, "")
		n.set(on("10/s", time.Hour))
		n.Use = func(*State) error { return errors.New("refused") }
		if is := n.set(on("1/s", time.Hour)); is.Limit != "10/s" || !strings.Contains(n.logs.String(), "cannot obey") {
			t.Errorf("%+v\n%s", is, n.logs)
		}
	})
}

func TestRecordsOfOtherProgramsAreChecked(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":            "x",
		"no revision":        `{"on":true,"limit":"1/s","by":"ip"}`,
		"no limit":           `{"revision":"r","on":true,"by":"ip"}`,
		"a wrong limit":      `{"revision":"r","on":true,"limit":"1","by":"ip"}`,
		"no attribute":       `{"revision":"r","on":true,"limit":"1/s"}`,
		"a long attribute":   `{"revision":"r","on":true,"limit":"1/s","by":"` + strings.Repeat("x", 300) + `"}`,
		"a control":          `{"revision":"r","author":"\u001b[2J"}`,
		"a huge text":        `{"revision":"r","reason":"` + strings.Repeat("x", 1<<20) + `"}`,
		"a wrong type":       `{"revision":1}`,
		"an invalid instant": `{"revision":"r","since":"yesterday"}`,
	} {
		if r, err := Decode(text); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	text, err := Encode(Record{Revision: "r", On: true, Limit: "1/s", By: "ip", Reason: "two\nlines"})
	if r, err2 := Decode(text); err != nil || err2 != nil || r.Reason != "two\nlines" {
		t.Error(err, err2, r)
	}
}
