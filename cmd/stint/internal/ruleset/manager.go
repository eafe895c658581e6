package ruleset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/rule"
)

// Options configure a [Manager]. Source and OnSet are required.
type Options struct {
	Source Source
	// CopyDir is a folder for a copy of the last version in force. A node starts
	// from the copy while its source is unreachable. Empty keeps no copy.
	CopyDir string
	// Local means that the source is on this machine. A failure of the first look
	// is then a configuration error, and each later failure is worth an alert.
	Local bool
	// Node returns the id and the address that this node announces. It is called
	// after Run has started. Nil leaves both empty.
	Node func() Node
	// OnSet puts rules in force. Calls do not overlap, and the rules are in force
	// when it returns.
	OnSet func(*rule.Set, Version)
	// OnError receives the reason why rules were rejected, once for each reason.
	OnError func(error)
	// OnLook receives the result of each look at the source: nil when the source
	// answered.
	OnLook func(error)
	// Logger receives everything else. Nil disables logging.
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
	asked     atomic.Bool // set by Reload
	renew     chan struct{}
	following chan struct{}

	taking sync.Mutex // held while a set is put in force
	looks  struct {
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

// lookTime is the timeout of a query to the source. startTime is the timeout of
// the first one, when the process starts.
const (
	lookTime  = 5 * time.Second
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
	k := &Manager{Options: o, wake: make(chan struct{}, 1), renew: make(chan struct{}, 1), following: make(chan struct{})}
	builtin := []rule.File{rule.BuiltinFile()}
	k.current.Store(&running{rule.Builtin(), Version{Hash: HashOf(builtin), Files: builtin}, time.Now().UTC()})
	if o.CopyDir != "" {
		k.copies = &archive{o.CopyDir, wholeCopies, wholeCopies}
	}
	return k
}

// Current returns the rules in force and their version.
func (k *Manager) Current() (*rule.Set, Version) {
	r := k.current.Load()
	return r.set, r.version
}

// History lists the newest versions of the source.
func (k *Manager) History(ctx context.Context, n int) ([]Version, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return k.Source.History(ctx, n)
}

// Get returns a version of the source with its files. The version in force and
// version 0, the built-in rules, are available even while the source is down.
func (k *Manager) Get(ctx context.Context, number uint64) (Version, error) {
	if _, v := k.Current(); v.Number == number {
		return v, nil
	}
	if number == 0 {
		builtin := []rule.File{rule.BuiltinFile()}
		return Version{Hash: HashOf(builtin), Files: builtin}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return k.Source.Get(ctx, number)
}

// Up reports whether the source answers. A remote source is still up after two
// consecutive failures.
func (k *Manager) Up() bool {
	k.looks.Lock()
	defer k.looks.Unlock()
	return k.looks.failed == 0 || !k.Local && k.looks.failed < downAfter
}

// Stale reports whether this node started from its local copy and the source
// has not yet confirmed that there is no newer version.
func (k *Manager) Stale() bool { return k.copied.Load() }

// Load installs the first version: the newest of the source, or if that is
// unreachable or unusable the local copy, or the built-in rules. An error means
// that a local source has no usable version.
func (k *Manager) Load(ctx context.Context) error {
	k.takeCopy()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := k.look(ctx, false)
	switch {
	case err == nil:
	case k.Local:
		return err
	default:
		k.report(err)
	}
	if _, v := k.Current(); k.Stale() {
		k.Logger.Error("rules: STALE: serving the local copy of an earlier run, because the source does not confirm it; newer versions are not known",
			"version", v.Number, "published", v.Time, "source", k.Source.String())
	}
	if _, v := k.Current(); v.Number == 0 {
		k.install(k.current.Load())
	}
	return nil
}

// takeCopy installs the version that was in force before a restart.
func (k *Manager) takeCopy() {
	if k.copies == nil || k.Local {
		return
	}
	v := k.copies.newest()
	if v.Number == 0 {
		return
	}
	set, err := v.Set()
	if err != nil {
		k.report(fmt.Errorf("the local copy is of no use: %w", err))
		return
	}
	k.copied.Store(true)
	k.install(&running{set, v, time.Now().UTC()})
}

// install puts a set in force. Calls must not overlap.
func (k *Manager) install(r *running) {
	k.current.Store(r)
	k.OnSet(r.set, r.version)
	poke(k.renew)
}

// take installs a version, unless a newer one is in force.
func (k *Manager) take(v Version, asked bool) error {
	set, err := v.Set()
	if err != nil {
		return err
	}
	if !k.enforce(&running{set, v, time.Now().UTC()}, asked) {
		return nil
	}
	k.copied.Store(false)
	if k.copies == nil {
		return nil
	}
	if v.Repaired {
		k.copies.removeFarAbove(v.Number)
	}
	if err := k.copies.set(v); err != nil {
		k.Logger.Warn("rules: no local copy can be kept (give --state-dir a folder to write to)", "error", err)
	}
	return nil
}

func (k *Manager) enforce(r *running, asked bool) bool {
	k.taking.Lock()
	defer k.taking.Unlock()
	now := k.current.Load()
	if asked && now.version.Number == r.version.Number && now.version.Hash == r.version.Hash {
		r.since = now.since
	} else if !r.version.follows(&now.version) {
		return false
	}
	k.install(r)
	return true
}

// report passes err to OnError unless it repeats the last error.
func (k *Manager) report(err error) {
	k.looks.Lock()
	said := k.looks.said == err.Error()
	k.looks.said = err.Error()
	k.looks.Unlock()
	if !said && k.OnError != nil {
		k.OnError(err)
	}
}

// poke wakes the receiver of c. Several pokes before it wakes count as one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// Nodes lists the nodes that share the source. It returns only this node if
// nodes do not announce themselves to the source, or if this node is stale and
// the source does not answer.
func (k *Manager) Nodes(ctx context.Context) ([]Node, error) {
	fleet, ok := k.Source.(Fleet)
	if !ok {
		return []Node{k.self()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	nodes, err := fleet.Nodes(ctx)
	if err != nil && k.Stale() {
		return []Node{k.self()}, nil
	}
	return nodes, err
}

func (k *Manager) self() Node {
	r := k.current.Load()
	var n Node
	if k.Node != nil {
		n = k.Node()
	}
	n.Version, n.Hash, n.Since, n.Stale = r.version.Number, r.version.Hash, r.since, k.Stale()
	return n
}

var errGone = errors.New("the source has no version any more, and this node keeps what it runs (publish the rules again, which numbers them anew)")
