package ruleset

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/rule"
)

// Options configures a [Manager]. Source and OnSet are required.
type Options struct {
	Source Source
	// CopyDir is a folder for a copy of the last version in force. A node starts
	// from the copy while its source is unreachable. Empty keeps no copy.
	CopyDir string
	// Local means that the source is on this machine. A failure of the first check
	// is then a configuration error, and each later failure is worth an alert.
	Local bool
	// Node returns the id and the address that this node announces. It is called
	// after Run has started. Nil leaves both empty.
	Node func() Node
	// Check, if not nil, returns why this node cannot apply a valid set. Such a set is
	// neither published nor put in force.
	Check func(*rule.Set) error
	// OnSet puts rules in force. Calls do not overlap, and the rules are in force
	// when it returns.
	OnSet func(*rule.Set, Version)
	// OnError receives the reason why rules were rejected, once for each reason.
	OnError func(error)
	// OnCheck receives the result of each check of the source: nil when the source
	// answered.
	OnCheck func(error)
	// OnCurrent is called after each check that left the newest version of the source in
	// force. It is not called while that version is rejected.
	OnCurrent func()
	// OnSecret, if not nil, receives the secret that all nodes of the source share, at first and
	// whenever it changes.
	OnSecret func(string)
	// OnCanaryEnd, if not nil, is called when this node has ended a canary.
	OnCanaryEnd func(promoted bool, why CanaryReason)
	// Logger receives all other messages. Nil disables logging.
	Logger *slog.Logger
}

// Manager keeps the rules of a node up to date with its source. Make it by
// [NewManager]. Its methods are safe for concurrent use.
type Manager struct {
	Options

	copies    *archive // nil: none
	current   atomic.Pointer[running]
	copied    atomic.Bool // the version in force came from the local copy and is not yet confirmed by the source
	wake      chan struct{}
	forced    atomic.Bool // set by Reload
	renew     chan struct{}
	following chan struct{}
	secret    sharedSecret
	unjudged  string // the last error of ending a canary; only the loop of announcements uses it

	accepting sync.Mutex // held while a set is put in force
	checks    struct {
		sync.Mutex

		failed int    // consecutive failures
		said   string // last error passed to OnError
	}
}

// running is the version in force.
type running struct {
	set     *rule.Set
	version Version
	since   time.Time
}

// checkTime is the timeout of a query to the source. startTime is the timeout of
// the first one, when the process starts.
const (
	checkTime = 5 * time.Second
	startTime = 2 * time.Second
)

// downAfter is the number of consecutive failures after which a remote source
// counts as down.
const downAfter = 3

// NewManager returns a manager that runs the built-in rules as version 0. It
// does not pass them to OnSet yet.
func NewManager(o Options) *Manager {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{Options: o, wake: make(chan struct{}, 1), renew: make(chan struct{}, 1), following: make(chan struct{})}
	builtin := []rule.File{rule.BuiltinFile()}
	m.current.Store(&running{rule.Builtin(), Version{Hash: HashOf(builtin), Files: builtin}, time.Now().UTC()})
	if o.CopyDir != "" {
		m.copies = &archive{o.CopyDir, wholeCopies, wholeCopies}
	}
	return m
}

// Current returns the rules in force and their version.
func (m *Manager) Current() (*rule.Set, Version) {
	r := m.current.Load()
	return r.set, r.version
}

// History lists the newest versions of the source.
func (m *Manager) History(ctx context.Context, n int) ([]Version, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return m.Source.History(ctx, n)
}

// Get returns a version of the source with its files. The version in force and
// version 0, the built-in rules, are available even while the source is down.
func (m *Manager) Get(ctx context.Context, number uint64) (Version, error) {
	if _, v := m.Current(); v.Number == number {
		return v, nil
	}
	if number == 0 {
		builtin := []rule.File{rule.BuiltinFile()}
		return Version{Hash: HashOf(builtin), Files: builtin}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return m.Source.Get(ctx, number)
}

// Up reports whether the source answers. A remote source is still up after two
// consecutive failures.
func (m *Manager) Up() bool {
	m.checks.Lock()
	defer m.checks.Unlock()
	return m.checks.failed == 0 || !m.Local && m.checks.failed < downAfter
}

// Answered reports whether the source answered the last call.
func (m *Manager) Answered() bool {
	m.checks.Lock()
	defer m.checks.Unlock()
	return m.checks.failed == 0
}

// Stale reports whether this node started from its local copy and the source
// has not yet confirmed that there is no newer version.
func (m *Manager) Stale() bool { return m.copied.Load() }

// Load installs the first version: the newest of the source, or if that is
// unreachable or unusable the local copy, or the built-in rules. An error means
// that a local source has no usable version.
func (m *Manager) Load(ctx context.Context) error {
	m.acceptCopy()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := m.check(ctx, false)
	switch {
	case err == nil:
		m.confirmed()
	case m.Local:
		return err
	default:
		m.report(err)
	}
	if _, v := m.Current(); m.Stale() {
		m.Logger.Error("rules: STALE: serving the local copy of an earlier run, because the source does not confirm it; there may be a newer version",
			"version", v.Number, "published", v.Time, "source", m.Source.String())
	}
	if _, v := m.Current(); v.Number == 0 {
		m.install(m.current.Load())
	}
	return nil
}

// acceptCopy installs the version that was in force before a restart.
func (m *Manager) acceptCopy() {
	if m.copies == nil || m.Local {
		return
	}
	v := m.copies.newest()
	if v.Number == 0 {
		return
	}
	set, err := m.setOf(&v)
	if err != nil {
		m.report(fmt.Errorf("the local copy cannot be used: %w", err))
		return
	}
	m.copied.Store(true)
	m.install(&running{set, v, time.Now().UTC()})
}

// install puts a set in force. Calls must not overlap.
func (m *Manager) install(r *running) {
	m.current.Store(r)
	m.OnSet(r.set, r.version)
	poke(m.renew)
}

// accept installs a version, unless a newer one is in force.
func (m *Manager) accept(v Version, asked bool) error {
	set, err := m.setOf(&v)
	if err != nil {
		return err
	}
	if !m.enforce(&running{set, v, time.Now().UTC()}, asked) {
		return nil
	}
	m.copied.Store(false)
	if m.copies == nil {
		return nil
	}
	if v.Repaired {
		m.copies.removeFarAbove(v.Number)
	}
	if err := m.copies.set(v); err != nil {
		m.Logger.Warn("rules: no local copy can be kept (set --state-dir to a writable folder)", "error", err)
	}
	return nil
}

// setOf returns the rules of a version, if they are valid and this node can apply them.
func (m *Manager) setOf(v *Version) (*rule.Set, error) {
	set, err := v.Set()
	if err != nil {
		return nil, err
	}
	sets := []*rule.Set{set}
	if v.Canary != nil {
		trial, _, err := v.Trial()
		if err != nil {
			return nil, err
		}
		sets = append(sets, trial)
	}
	for _, one := range sets {
		if m.Check == nil {
			break
		}
		if err := m.Check(one); err != nil {
			return nil, &InvalidError{Number: m.numberInErrors(v), Err: err}
		}
	}
	return set, nil
}

// numberInErrors returns the number of a version for errors about its rules. The place of a
// mistake in files says enough: it comes first, where editors look for it.
func (m *Manager) numberInErrors(v *Version) uint64 {
	if m.Local {
		return 0
	}
	return v.Number
}

func (m *Manager) enforce(r *running, asked bool) bool {
	m.accepting.Lock()
	defer m.accepting.Unlock()
	now := m.current.Load()
	if asked && now.version.Number == r.version.Number && now.version.Hash == r.version.Hash {
		r.since = now.since
	} else if !r.version.follows(&now.version) {
		return false
	}
	m.install(r)
	return true
}

// report passes err to OnError unless it repeats the last error.
func (m *Manager) report(err error) {
	m.checks.Lock()
	said := m.checks.said == err.Error()
	m.checks.said = err.Error()
	m.checks.Unlock()
	if !said && m.OnError != nil {
		m.OnError(err)
	}
}

// poke wakes the receiver of c. Several pokes before it wakes count as one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// AnnounceNow tells the other nodes the state of this node without waiting for the next
// announcement. It does not block.
func (m *Manager) AnnounceNow() { poke(m.renew) }

// Nodes lists the nodes that share the source. It returns only this node if
// nodes do not announce themselves to the source, or if this node is stale and
// the source does not answer.
func (m *Manager) Nodes(ctx context.Context) ([]Node, error) {
	fleet, ok := m.Source.(Fleet)
	if !ok {
		return []Node{m.Self()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	nodes, err := fleet.Nodes(ctx)
	if err != nil && m.Stale() {
		return []Node{m.Self()}, nil
	}
	return nodes, err
}

// Self returns this node as it is now.
func (m *Manager) Self() Node {
	r := m.current.Load()
	var n Node
	if m.Node != nil {
		n = m.Node()
	}
	n.Version, n.Hash, n.Since, n.Stale = r.version.Number, r.version.Hash, r.since, m.Stale()
	return n
}
