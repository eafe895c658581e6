package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// logOnServer is a log of one key. The test sets the time.
type logOnServer struct {
	*scripts

	now    int64
	encode *encoding
	limit  stint.Limit
	key    string
}

func newLogOnServer(t *testing.T, units int64, window time.Duration) *logOnServer {
	t.Helper()
	l := &logOnServer{scripts: dialBoth(t), now: 1_700_000_000_000_000}
	l.encode = encodingOf(t, Options{Clock: func() time.Time { return time.UnixMicro(l.now) }, KeepFor: time.Hour})
	l.limit = limitOf(t, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: units, Window: window})
	return l
}

func (l *logOnServer) take(c stint.Claim) (stint.Decision, error) {
	l.Helper()
	c.Key, c.Limit = "k", l.limit
	b := l.encode.newBatch()
	b.add([]stint.Claim{c}, 0)
	out, errs := l.decide(b)
	l.key = b.names[0]
	return out[0], errs[0]
}

func (l *logOnServer) bytes() int {
	l.Helper()
	n, err := l.do("STRLEN", l.key).AsInt64()
	if err != nil {
		l.Fatal(err)
	}
	return int(n)
}

// The size of a log on the server depends on its times, not on its units.
func TestUnitsOfOneTimeAreOneRun(t *testing.T) {
	l := newLogOnServer(t, 10_000, stint.MaxWindow)
	for i, cost := range []int64{4000, 5999} {
		l.now++
		if d, err := l.take(stint.Claim{Cost: cost}); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if got, want := l.bytes(), 2+9*(i+1); got != want {
			t.Errorf("the value has %d bytes, want %d", got, want)
		}
	}
	if d, err := l.take(stint.Claim{Cost: 1}); err != nil || d.Remaining != 0 || l.bytes() != 2+9*2 {
		t.Errorf("one more at the same time: %+v, %v, %d bytes", d, err, l.bytes())
	}
}

// A log drops the runs that no longer count. A long log decides as a short one does: it has
// more units than a 16-bit total can distinguish, in more runs than a block holds.
func TestLongLogsSlide(t *testing.T) {
	const units = 200
	l := newLogOnServer(t, 10_000, units*time.Millisecond)
	for i := range int64(1000) {
		cost := int64(10_000 / units)
		d, err := l.take(stint.Claim{Cost: cost})
		if err != nil || !d.Allowed || d.Remaining != max(0, units-1-i)*cost {
			t.Fatalf("take %d: %+v, %v", i, d, err)
		}
		if n := l.bytes(); n > 2+9*2*(units+1) {
			t.Fatalf("take %d: the value has %d bytes", i, n)
		}
		l.now += 1000
	}
}

// A value that is not a log fails its own claim, with a mend, and can be reset: text, times
// without totals, runs that do not ascend.
func TestValuesThatAreNotLogsAreErrors(t *testing.T) {
	l := newLogOnServer(t, 10, time.Hour)
	if _, err := l.take(stint.Claim{Cost: 1}); err != nil {
		t.Fatal(err)
	}
	old := ""
	for i := range 9 {
		old += string(appendInt7(nil, l.now+int64(i)))
	}
	run := func(at int64, total byte) string { return string(appendInt7(nil, at)) + "\x00" + string(total) }
	for name, value := range map[string]string{
		"short": "x", "text": strings.Repeat("x", 11), "times of 7 bytes": old, "half a run": "\x00\x00" + run(l.now, 1) + "abc",
		"times that fall": "\x00\x00" + run(l.now, 1) + run(l.now-1, 2),
	} {
		if err := l.do("SET", l.key, value).Error(); err != nil {
			t.Fatal(err)
		}
		_, err := l.take(stint.Claim{Cost: 1})
		wantError(t, err, stint.CodeInternal, "corrupt")
		if _, err := l.take(stint.Claim{Cost: stint.Forget}); err != nil {
			t.Errorf("%s: the reset: %v", name, err)
		}
		if d, err := l.take(stint.Claim{Cost: 1}); err != nil || d.Remaining != 9 {
			t.Errorf("%s: after the reset %+v, %v", name, d, err)
		}
	}
}

// A refund in the middle of a log of many runs changes the totals of the later runs.
func TestRefundInTheMiddle(t *testing.T) {
	l := newLogOnServer(t, 1000, time.Hour)
	memory := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return time.UnixMicro(l.now) }})
	r := newRand(t)
	var at []int64
	for i := range 400 {
		c := stint.Claim{Cost: 1 + r.Int64N(3)}
		if i > 250 {
			c = stint.Claim{Cost: -1 - r.Int64N(3), At: at[r.IntN(len(at))]}
		}
		got, err := l.take(c)
		if err != nil {
			t.Fatal(err)
		}
		c.Key, c.Limit = "k", l.limit
		want, err := memory.Take(t.Context(), c)
		if err != nil || got != want {
			t.Fatalf("step %d, %+v:\n got %+v\nwant %+v, %v", i, c, got, want, err)
		}
		at = append(at, l.now)
		l.now += 1 + r.Int64N(1000)
	}
}
