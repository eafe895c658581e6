package failuretest

import (
	"errors"
	"testing"
	"time"

	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/redistest"
)

// failure is one way in which a server, or the network in front of it, fails.
type failure struct {
	name    string
	strike  func(p *redistest.Process, f *redistest.Fault)
	mend    func(p *redistest.Process, f *redistest.Fault)
	forgets bool // the server is empty afterwards
}

var failures = []failure{
	{"killed", kill, restart, true},
	{"frozen", freeze, thaw, false},
	{"partitioned", partition, heal, false},
	{"partitionedWithoutLoss", hold, heal, false},
	{"halfOpen", dropReplies, heal, false},
	{"resettingConnections", reset, heal, false},
}

func kill(p *redistest.Process, _ *redistest.Fault)        { p.Kill() }
func restart(p *redistest.Process, _ *redistest.Fault)     { p.Restart() }
func freeze(p *redistest.Process, _ *redistest.Fault)      { p.Freeze() }
func thaw(p *redistest.Process, _ *redistest.Fault)        { p.Thaw() }
func partition(_ *redistest.Process, f *redistest.Fault)   { f.Partition() }
func hold(_ *redistest.Process, f *redistest.Fault)        { f.Hold() }
func dropReplies(_ *redistest.Process, f *redistest.Fault) { f.DropReplies() }
func reset(_ *redistest.Process, f *redistest.Fault)       { f.Reset() }
func heal(_ *redistest.Process, f *redistest.Fault)        { f.Heal() }

func TestSingleServerFails(t *testing.T) {
	skipShort(t)
	for _, c := range failures {
		t.Run(c.name, func(t *testing.T) {
			measure(t, func(t *testing.T) *figures { return fail(t, c) })
		})
	}
}

// fail makes a server fail under load and return. It checks every answer, and returns
// the figures.
func fail(t *testing.T, c failure) *figures {
	t.Helper()
	p := redistest.Server(t)
	proxy := redistest.Proxy(t, p.Addr())
	n := newNode(t, single(proxy.Addr()), patient())
	claims := claims(t)
	awaitAnswer(t, n, claims[opens])
	l := start(t, n, claims...)
	l.await(t, normal)

	broken := time.Now()
	c.strike(p, proxy)
	awaitOpen(t, n)
	l.await(t, 1000)
	mended := time.Now()
	c.mend(p, proxy)
	back := l.awaitNormal(t, mended)

	samples, spans := l.stop(), n.changes.open()
	f := read(samples, spans, broken)
	f.normal = back
	f.opens = len(spans)
	checkPolicies(t, samples, spans)
	if !c.forgets {
		checkCharges(t, n, claims, opens, samples, spans)
	}
	return f
}

func awaitOpen(t *testing.T, n *node) {
	t.Helper()
	redistest.Await(t, func() error {
		if n.changes.last().to != "open" {
			return errors.New("the breaker does not open")
		}
		return nil
	})
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}

// A server restarts empty, so fast that the breaker may not open. No node may then rely
// on state that the server has lost.
func TestServerRestartsEmpty(t *testing.T) {
	skipShort(t)
	measure(t, func(t *testing.T) *figures {
		p := redistest.Server(t)
		n := newNode(t, single(p.Addr()), patient())
		claims := claims(t)
		awaitAnswer(t, n, claims[opens])
		l := start(t, n, claims...)
		l.await(t, 5*scarce) // uses up the scarce limit
		broken := time.Now()
		p.Restart()
		back := l.awaitNormal(t, broken)
		l.await(t, 5*scarce)
		samples, spans := l.stop(), n.changes.open()
		f := read(samples, spans, broken)
		f.normal = back
		checkPolicies(t, samples, spans)
		admitted, unknown := admittedAnew(samples, spans, broken)
		if admitted > scarce || admitted < scarce-unknown {
			t.Errorf("the empty server admitted %d, and %d had no answer; want its whole limit of %d", admitted, unknown, scarce)
		}
		return f
	})
}

// admittedAnew counts the checks of the scarce limit that the store admitted after the
// given time, and those that were sent and got no answer.
func admittedAnew(samples []sample, open []span, since time.Time) (admitted, unknown int) {
	for i := range samples {
		s := &samples[i]
		switch {
		case s.claim != decides:
		case s.d.Degraded && !refused(open, s):
			unknown++
		case s.begun.After(since) && s.d.Allowed && !s.d.Degraded:
			admitted++
		}
	}
	return admitted, unknown
}

// The breaker opens for a slow server although every call succeeds.
func TestServerIsSlow(t *testing.T) {
	skipShort(t)
	measure(t, func(t *testing.T) *figures {
		p := redistest.Server(t)
		proxy := redistest.Proxy(t, p.Addr())
		n := newNode(t, single(proxy.Addr()), guard.Options{})
		claims := claims(t)
		awaitAnswer(t, n, claims[opens])
		l := start(t, n, claims...)
		l.await(t, normal)
		broken := time.Now()
		proxy.Delay(10 * time.Millisecond) // 20 ms a round trip: within the deadline, over the breaker's 10 ms
		awaitOpen(t, n)
		l.await(t, 1000)
		mended := time.Now()
		proxy.Heal()
		back := l.awaitNormal(t, mended)
		samples, spans := l.stop(), n.changes.open()
		f := read(samples, spans, broken)
		f.normal = back
		checkPolicies(t, samples, spans)
		checkCharges(t, n, claims, opens, samples, spans)
		return f
	})
}
