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

// Options are what a [Manager] keeps, and whom it tells. Source and OnSet are
// required.
type Options struct {
	Source Source
	// CopyDir is a folder for a copy of what was in force last, from which a
	// node starts while its source cannot be reached. Empty keeps none.
	CopyDir string
	// Local says that the source is on this machine: a first look at it that
	// fails is a mistake of the configuration, and each later one worth an
	// alert.
	Local bool
	// Node is the id and the address of this node, as it announces itself where
	// nodes do. It is called once Run is. Nil leaves both empty.
	Node func() Node
	// OnSet puts rules in force. It is called once at a time, and has done so
	// when it returns.
	OnSet func(*rule.Set, Version)
	// OnError hears why rules were not taken, once for each reason.
	OnError func(error)
	// OnLook hears how each look at the source went: nil when it answered.
	OnLook func(error)
	// Logger hears the rest. Nil means silence.
	Logger *slog.Logger
}

// Manager keeps the rules of a node as its source has them. Make it by
// [NewManager]. Its methods are safe for use by many goroutines at once.
type Manager struct {
	Options

	copies    *archive // nil: none
	current   atomic.Pointer[running]
	copied    atomic.Bool // what is in force came from the local copy, and the source has not confirmed it
	wake      chan struct{}
	asked     atomic.Bool // by Reload
	renew     chan struct{}
	following chan struct{}

	taking sync.Mutex // held while a set is put in force
	looks  struct {
		sync.Mutex

		failed int    // in a row
		said   string // to OnError, last
	}
}

// running is what is in force.
type running struct {
	set     *rule.Set
	version Version
	since   time.Time
}

// lookTime is how long a source has to answer, startTime how long at the start
// of a process.
const (
	lookTime  = 5 * time.Second
	startTime = 2 * time.Second
)

// downAfter is how many looks in a row fail before a source elsewhere counts as
// down.
const downAfter = 3

// NewManager returns a keeper with the built-in rules, as version 0. Nobody is
// told of those.
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

// Current is the rules in force.
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

// Get returns a version of the source whole; that in force also when the source
// does not answer, and 0, the built-in rules, always.
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

// Up reports whether the source answers. One that is elsewhere may fail twice
// in a row.
func (k *Manager) Up() bool {
	k.looks.Lock()
	defer k.looks.Unlock()
	return k.looks.failed == 0 || !k.Local && k.looks.failed < downAfter
}

// Stale reports whether this node started from its local copy and has not heard
// from the source since that it has nothing newer.
func (k *Manager) Stale() bool { return k.copied.Load() }

// Load takes the first version: the source's newest, or while that cannot be
// reached or used the copy of what was in force last, or the built-in rules. An
// error means that a local source has none to give.
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

// takeCopy puts in force what was so before a restart.
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

// install puts a set in force. Nobody else may do so meanwhile.
func (k *Manager) install(r *running) {
	k.current.Store(r)
	k.OnSet(r.set, r.version)
	poke(k.renew)
}

// take puts a version in force, unless a newer one is.
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

// report tells OnError what it was not told last.
func (k *Manager) report(err error) {
	k.looks.Lock()
	said := k.looks.said == err.Error()
	k.looks.said = err.Error()
	k.looks.Unlock()
	if !said && k.OnError != nil {
		k.OnError(err)
	}
}

// poke wakes who waits for c, once for many.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // awake already
	}
}

// Nodes lists the nodes that share the source; this one alone where nodes do
// not announce themselves, and where it is stale and the source does not answer.
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
