package ruleset

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Following returns a channel that is closed once Run notices every change.
func (m *Manager) Following() <-chan struct{} { return m.following }

// Reload makes Run query the source now and put the rules in force again even
// if nothing has changed. SIGHUP triggers it. Reload does not wait.
func (m *Manager) Reload() {
	if s, ok := m.Source.(interface{ Refresh() }); ok {
		s.Refresh()
	}
	m.forced.Store(true)
	poke(m.wake)
}

// Run watches the source and installs new versions until ctx ends. The node
// learns of a new version by [Source].Watch, which listens for announcements of
// the source and polls. Call Run once.
func (m *Manager) Run(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { m.Source.Watch(ctx, func() { poke(m.wake) }) })
	if fleet, ok := m.Source.(Fleet); ok {
		beside.Go(func() { m.announce(ctx, fleet) })
	}
	var once sync.Once
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
			m.checkAgain(ctx)
			once.Do(func() { close(m.following) })
		}
	}
}

func (m *Manager) checkAgain(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	asked := m.forced.Swap(false)
	if asked {
		m.forgetReported()
	}
	err := m.check(within, asked)
	switch {
	case ctx.Err() != nil: // shutdown, not a failure
	case err != nil:
		m.report(err)
	default:
		m.forgetReported()
		m.confirmed()
	}
}

// confirmed reports that the newest version of the source is in force.
func (m *Manager) confirmed() {
	if m.OnCurrent != nil {
		m.OnCurrent()
	}
}

func (m *Manager) forgetReported() {
	m.checks.Lock()
	defer m.checks.Unlock()
	m.checks.said = ""
}

// check queries the source and installs the newest version if it is newer. The
// error says why the version was rejected.
func (m *Manager) check(ctx context.Context, asked bool) error {
	_, now := m.Current()
	newest, err := m.newest(ctx)
	if v, ok := m.repaired(ctx, newest, now); ok {
		return m.accept(v, asked)
	}
	switch {
	case err != nil:
	case newest.Number == 0 && now.Number > 0:
		err = errors.New("the source no longer has any version; this node keeps what it runs (publish the rules again: they get a new number)")
	case newest.Number == 0:
	case newest.Number < now.Number:
		err = fmt.Errorf("the newest version of the source is %d, as if restored from a backup; this node keeps version %d, which it runs (publish the rules again: they get a new number)", newest.Number, now.Number)
	case newest.Number == now.Number && newest.Hash != now.Hash:
		err = fmt.Errorf("version %d of the source differs from version %d of this node, which keeps its own (publish the rules again: they get a new number)", newest.Number, now.Number)
	case newest.Number == now.Number && !asked:
		if m.copied.Swap(false) {
			m.Logger.Info("rules: the source confirms the version of the local copy", "version", now.Number)
		}
	default:
		return m.fetch(ctx, newest, asked)
	}
	return err
}

// repaired returns the newest version of the source if a repair has numbered it
// far below the version in force.
func (m *Manager) repaired(ctx context.Context, newest, now Version) (Version, bool) {
	if newest.Number == 0 || newest.Number > now.Number || now.Number-newest.Number <= farAhead {
		return Version{}, false
	}
	v, err := m.Source.Get(ctx, newest.Number)
	return v, err == nil && v.Repaired && v.Hash == HashOf(v.Files)
}

// newest returns the newest version that the source lists, or number 0 when there is none. It
// records the check as successful only if that version need not be fetched. If it must be
// fetched, fetch records the success.
func (m *Manager) newest(ctx context.Context) (v Version, err error) {
	listed, err := m.Source.History(ctx, 1)
	if len(listed) > 0 {
		v = listed[0]
	}
	if _, now := m.Current(); err != nil || v.Number <= now.Number {
		m.checked(err)
	}
	return v, err
}

// fetch gets a version that the source has listed and installs it.
func (m *Manager) fetch(ctx context.Context, listed Version, asked bool) error {
	v, err := m.Source.Get(ctx, listed.Number)
	m.checked(err)
	if err != nil {
		return fmt.Errorf("version %d: %w", listed.Number, err)
	}
	if v.Number != listed.Number || v.Hash != HashOf(v.Files) {
		return fmt.Errorf("version %d of the source %w: its files do not match its hash (publish the rules again)", listed.Number, ErrDamaged)
	}
	return m.accept(v, asked)
}

// checked records the result of a check of the source. Rules with mistakes count
// as a success, because the source answered.
func (m *Manager) checked(err error) {
	if _, ok := errors.AsType[*InvalidError](err); ok {
		err = nil
	}
	m.checks.Lock()
	m.checks.failed++
	if err == nil {
		m.checks.failed = 0
	}
	failed := m.checks.failed
	m.checks.Unlock()
	if failed == downAfter {
		m.Logger.Error("rules: the source does not answer; the last good version stays in force", "source", m.Source.String(), "failures", failed, "error", err)
	}
	if m.OnCheck != nil {
		m.OnCheck(err)
	}
}

// announce tells the other nodes which version this node runs: periodically,
// and at once when the version changes. It also gets the secret of all nodes, and
// judges a canary, by what the other nodes have announced.
func (m *Manager) announce(ctx context.Context, fleet Fleet) {
	tick := time.NewTicker(AnnounceEvery)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, AnnounceEvery)
		if err := fleet.Announce(within, m.Self()); err != nil {
			m.Logger.Debug("rules: this node cannot announce itself", "error", err)
		}
		m.shareSecret(within, fleet)
		m.judgeCanary(within, fleet)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.renew:
		}
	}
}

// sharedSecret is the secret of all nodes. Only the loop of announcements uses it.
type sharedSecret struct {
	text   string // empty: not known yet
	due    time.Time
	wait   time.Duration // after a failure, until the next attempt
	failed string        // the last error, which is logged once; empty: none
}

// secretEvery is the interval at which a node asks for the secret of all nodes. After a failure it
// asks sooner, and less often with each further failure: a role of PostgreSQL that may not create
// the table makes the server log an error each time.
const secretEvery = time.Minute

// shareSecret gets the secret of all nodes. A node that knows one proposes it again, so that a
// source that has lost everything gets the same one back.
func (m *Manager) shareSecret(ctx context.Context, fleet Fleet) {
	s := &m.secret
	if m.OnSecret == nil || time.Now().Before(s.due) {
		return
	}
	text, err := fleet.Secret(ctx, cmp.Or(s.text, rand.Text()))
	if err != nil {
		s.wait = min(max(2*s.wait, AnnounceEvery), secretEvery)
		s.due = time.Now().Add(s.wait)
		if ctx.Err() == nil && err.Error() != s.failed {
			s.failed = err.Error()
			m.Logger.Warn("rules: this node cannot get the secret of all nodes; without it, no impact is found over several nodes", "error", err)
		}
		return
	}
	s.due, s.wait, s.failed = time.Now().Add(secretEvery), 0, ""
	if text != s.text {
		s.text = text
		m.OnSecret(text)
	}
}
