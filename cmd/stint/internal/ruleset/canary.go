package ruleset

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stintdev/stint/rule"
)

// Canary is a trial of new rules on a share of the callers. It is part of a version: the Files of
// that version are the old rules, which all other callers keep, and the canary has the new ones.
// So a version with a canary is complete in itself. A node that starts in the middle of the trial,
// or from its local copy, needs nothing else, and code that knows of no canary applies the old
// rules.
//
// A canary ends by the next version, which has either the new or the old rules for all callers.
// Publishing is a compare-and-set, so that of two nodes or operators who end a canary at once one
// succeeds.
type Canary struct {
	Control    uint64        // number of the version that has the old rules; 0: the built-in rules
	Share      float64       // of the callers that get the new rules, above 0 and below 1
	By         string        // see [rule.Set.SplitBy]
	Seed       string        // of the hash that splits the callers; all nodes have the same
	Soak       time.Duration // after which a node promotes the canary; 0: only an operator does
	AbortAbove float64       // greatest difference of the shares that are denied
	Hash       string        // of Files
	Files      []rule.File   // the new rules; nil in a history
}

// Has reports whether a caller belongs to the canary, by the text that [rule.Set.Caller] returns
// for By. The hash is cryptographic and the seed secret from callers, so nobody can compute which
// keys belong to it. A client that can make up keys can still try some until it meets the side that
// it prefers.
func (c *Canary) Has(caller string) bool {
	var room [128]byte
	sum := sha256.Sum256(append(append(room[:0], c.Seed...), caller...))
	return binary.BigEndian.Uint64(sum[:8]) < uint64(c.Share*math.MaxUint64)
}

// CanaryOptions are what the publisher of a canary chooses. Check them with Validate.
type CanaryOptions struct {
	Share      float64
	Soak       time.Duration
	AbortAbove float64
}

// Bounds of CanaryOptions.
const (
	MinCanaryShare = 0.0001
	MaxCanaryShare = 0.99
	MinSoak        = time.Second
	MaxSoak        = 30 * 24 * time.Hour
)

// DefaultAbortAbove is the usual AbortAbove.
const DefaultAbortAbove = 0.05

// Validate returns an error that names the option that is out of range.
func (o *CanaryOptions) Validate() error {
	switch {
	case !(o.Share >= MinCanaryShare && o.Share <= MaxCanaryShare):
		return fmt.Errorf("canary: %g is not a share of the callers (give 0.01%% to 99%%)", o.Share)
	case o.Soak != 0 && (o.Soak < MinSoak || o.Soak > MaxSoak):
		return fmt.Errorf("soak: %v is out of range (give 1s to 720h, or leave it out to promote by hand)", o.Soak)
	case !(o.AbortAbove >= 0 && o.AbortAbove <= 1):
		return fmt.Errorf("abort-above: %g is not a share of the requests (give 0%% to 100%%)", o.AbortAbove)
	}
	return nil
}

// ErrNoCanary means that a source cannot carry a canary.
var ErrNoCanary = errors.New("canary: these rules are not in Redis or PostgreSQL (a canary needs one source for all nodes: with files, each node has versions of its own, and the file would not say what is in force)")

// CanaryError means that nothing can be published, because a canary is on.
type CanaryError struct{ Number uint64 }

func (e *CanaryError) Error() string {
	return fmt.Sprintf("version %d is a canary, and nothing is published until it ends (end it with stint rules promote or stint rules abort)", e.Number)
}

// CanaryGoneError means that a canary to end is not on, or not on any more.
type CanaryGoneError struct{ Newest Version } // without its files

func (e *CanaryGoneError) Error() string {
	if e.Newest.Canary != nil {
		return fmt.Sprintf("the canary is another one by now: version %d (look at it with stint rules canary, then decide again)", e.Newest.Number)
	}
	return fmt.Sprintf("no canary is on: the newest version is %d (stint rules history says what ended the last one)", e.Newest.Number)
}

// Trial returns the rules that a version applies to the callers of its canary, or the rules of the
// version itself if it has none. kept are the ids of the rules that have their old limits, because
// callers of both sides share their counts. The error is [*InvalidError].
func (v *Version) Trial() (set *rule.Set, kept []string, err error) {
	control, err := v.Set()
	if err != nil || v.Canary == nil {
		return control, nil, err
	}
	next, err := rule.Parse(v.Canary.Files...)
	if err == nil {
		set, kept, err = control.Canary(next, v.Canary.By)
	}
	if err != nil {
		return nil, nil, &InvalidError{Number: v.Number, Err: err}
	}
	return set, kept, nil
}

// Tried returns the version with the rules that it is about: the new ones of a canary, and its
// own of any other version.
func (v Version) Tried() Version {
	if v.Canary != nil {
		v.Files, v.Hash, v.set = v.Canary.Files, v.Canary.Hash, nil
	}
	return v
}

// NewCanary returns the version that tries next beside control.
func NewCanary(control, next Version, o CanaryOptions) (Version, error) {
	if err := o.Validate(); err != nil {
		return Version{}, err
	}
	was, err := control.Set()
	if err != nil {
		return Version{}, err
	}
	is, err := next.Set()
	if err != nil {
		return Version{}, err
	}
	v := next
	v.Files, v.Hash, v.set = control.Files, control.Hash, was
	v.Canary = &Canary{Control: control.Number, Share: o.Share, By: was.SplitBy(is), Seed: rand.Text(),
		Soak: o.Soak, AbortAbove: o.AbortAbove, Hash: next.Hash, Files: next.Files}
	return v, nil
}

// CheckCanary returns [ErrNoCanary] if the source cannot carry a canary.
func (m *Manager) CheckCanary() error {
	if m.carriesCanaries() {
		return nil
	}
	return ErrNoCanary
}

func (m *Manager) carriesCanaries() bool {
	_, shared := m.Source.(Fleet)
	return shared
}

// canary turns the version of a change into one that tries it beside the newest version.
func (m *Manager) canary(ctx context.Context, v Version, c *Change) (Version, error) {
	if err := m.CheckCanary(); err != nil {
		return Version{}, err
	}
	control, err := m.Get(ctx, c.After)
	if err != nil {
		return Version{}, err
	}
	return NewCanary(control, v, *c.Canary)
}

// CanaryEnd is a request to end a canary.
type CanaryEnd struct {
	Number          uint64 // of the version with the canary
	Promote         bool   // apply its rules to all callers; false: the old rules
	Author, Comment string
}

// EndCanary ends a canary. The new version is in force on this node when EndCanary returns. The
// error is [*CanaryGoneError] if that canary is not on.
func (m *Manager) EndCanary(ctx context.Context, e CanaryEnd) (Version, error) {
	on, err := m.newestListed(ctx)
	if err != nil {
		return Version{}, err
	}
	if on.Canary == nil || on.Number != e.Number {
		return Version{}, &CanaryGoneError{on}
	}
	v, err := m.Get(ctx, e.Number)
	if err != nil {
		return Version{}, err
	}
	if e.Promote {
		v = v.Tried()
	}
	published, err := m.Publish(ctx, Change{Files: v.Files, Author: e.Author, Comment: e.Comment, After: e.Number, endsCanary: true})
	if conflict, other := errors.AsType[*ConflictError](err); other {
		return Version{}, &CanaryGoneError{conflict.Newest}
	}
	return published, err
}

// newestListed returns the newest version without its files; number 0: there is none.
func (m *Manager) newestListed(ctx context.Context) (Version, error) {
	if !m.carriesCanaries() {
		_, now := m.Current()
		return now.listed(), nil
	}
	listed, err := m.History(ctx, 1)
	if err != nil || len(listed) == 0 {
		return Version{}, err
	}
	return listed[0], nil
}

// CanaryStatus is a canary with the requests of all nodes so far.
type CanaryStatus struct {
	Version         Version // without its files; its Canary is nil if no canary runs
	Control, Canary Counts
	Nodes           int // number of nodes that count
}

// Counts are requests by how they ended. They include neither those that other limits than rules
// decide, such as takes, nor peeks. Of one caller they have only what no caller may exceed, so
// that none decides alone about a canary.
type Counts struct {
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"` // by a limit or a deny list
	Errors   uint64 `json:"errors"` // without a decision of the store, or without any
}

// CanaryCounts are the counts of a node since it runs a version with a canary.
type CanaryCounts struct {
	Version uint64 `json:"version"`
	Control Counts `json:"control"`
	Canary  Counts `json:"canary"`
}

func (c *Counts) add(other Counts) {
	c.Requests += other.Requests
	c.Denied += other.Denied
	c.Errors += other.Errors
}

// Decided returns the number of requests that are no errors.
func (c Counts) Decided() uint64 { return c.Requests - min(c.Errors, c.Requests) }

// DeniedShare returns the share of the decided requests that are denied, 0 of none.
func (c Counts) DeniedShare() float64 { return shareOf(c.Denied, c.Decided()) }

// ErrorShare returns the share of the requests that are errors, 0 of none.
func (c Counts) ErrorShare() float64 { return shareOf(c.Errors, c.Requests) }

func shareOf(n, all uint64) float64 { return float64(n) / float64(max(all, 1)) }

// CanaryStatus returns the canary that is on, with the counts that the nodes have announced.
func (m *Manager) CanaryStatus(ctx context.Context) (CanaryStatus, error) {
	on, err := m.newestListed(ctx)
	if err != nil || on.Canary == nil {
		return CanaryStatus{Version: on}, err
	}
	nodes, err := m.Nodes(ctx)
	return statusOf(on, nodes), err
}

// statusOf sums the counts of nodes.
func statusOf(on Version, nodes []Node) CanaryStatus {
	s := CanaryStatus{Version: on}
	for _, n := range nodes {
		if c := n.Canary; c != nil && c.Version == on.Number {
			s.Control.add(c.Control)
			s.Canary.add(c.Canary)
			s.Nodes++
		}
	}
	return s
}

// replaceSelf puts the present state of this node in the place of what it has announced.
func replaceSelf(nodes []Node, self Node) []Node {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.ID == self.ID })
	return append(nodes, self)
}
