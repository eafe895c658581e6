package ruleset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/live"
)

// Source stores versions. Everyone who uses the same source sees the same
// versions. Its methods are safe for concurrent use.
type Source interface {
	// History lists at most n versions without their files, the newest first. The
	// list is empty when nothing was ever published. Nodes poll it, so it is cheap
	// for n = 1.
	History(ctx context.Context, n int) ([]Version, error)

	// Get returns a version with its files. It fails with [ErrNone] when no version
	// has the number or when its files are no longer kept.
	Get(ctx context.Context, number uint64) (Version, error)

	// Publish makes v the newest version if the newest one is still the one
	// numbered after (0: there is none). Otherwise it fails with [*ConflictError]
	// and changes nothing. v.Number is higher than after. Publish returns v as it
	// is stored.
	Publish(ctx context.Context, after uint64, v Version) (Version, error)

	// Watch calls changed whenever there may be a new version, until ctx ends. It
	// may call it without a new version. A source that can miss an announcement
	// also calls it every [PollEvery]. changed returns at once.
	Watch(ctx context.Context, changed func())

	// String describes where the versions are stored, without passwords.
	String() string
}

// PollEvery is the interval at which a source that announces versions is polled
// as well.
const PollEvery = 10 * time.Second

// Fleet is a [Source] through which nodes tell each other which version they
// run.
type Fleet interface {
	// Announce publishes the state of this node. It is forgotten unless it is
	// repeated within [ForgetAfter].
	Announce(ctx context.Context, n Node) error
	// Nodes lists the nodes that have announced themselves, ordered by id.
	Nodes(ctx context.Context) ([]Node, error)
	// Secret returns the text that all nodes share and that no caller knows. If there is
	// none, it becomes the proposed one.
	Secret(ctx context.Context, proposed string) (string, error)
}

// LeastSecret and MostSecret bound the text of [Fleet.Secret], in bytes.
const (
	LeastSecret = 16
	MostSecret  = 256
)

// CheckSecret returns an error for a stored text that cannot be a secret.
func CheckSecret(text string) error {
	if len(text) < LeastSecret || len(text) > MostSecret {
		return fmt.Errorf("the secret of the nodes has %d bytes, and needs %d to %d (run stint rules repair --source URL FILE)", len(text), LeastSecret, MostSecret)
	}
	return nil
}

// AnnounceEvery is the interval of a node's announcements. A node that is
// silent for ForgetAfter is forgotten.
const (
	AnnounceEvery = 5 * time.Second
	ForgetAfter   = 3 * AnnounceEvery
)

// Truncater is a [Source] that can forget versions.
type Truncater interface {
	// Truncate forgets every version numbered higher than above, whatever it
	// contains, any other state that prevents the following numbers from being
	// given out. It replaces the secret, which whoever wrote there may have read.
	Truncate(ctx context.Context, above uint64) error
}

// Node is the announced state of a server.
type Node struct {
	ID      string    `json:"id"`                // id of the process; a restart changes it
	Address string    `json:"address"`           // address that it serves on, for people
	Version uint64    `json:"version"`           // version that it runs
	Hash    string    `json:"hash"`              // hash of that version
	Since   time.Time `json:"since"`             // time since which it runs the version
	Stale   bool      `json:"stale,omitempty"`   // see [Manager.Stale]
	Program string    `json:"program,omitempty"` // version of Stint; empty: an older one
	// Emergency is the revision of the emergency that the node obeys; empty: none.
	Emergency string `json:"emergency,omitempty"`
	// Canary is what the node has counted of the canary that it runs; nil: it runs none.
	Canary *CanaryCounts `json:"canary,omitempty"`
	// Traffic is what the node counted in the seconds before the announcement; nil: it says
	// nothing about that.
	Traffic *live.Second `json:"traffic,omitempty"`
	// Status is the state of the node itself; nil: it is of an older version.
	Status *NodeStatus `json:"status,omitempty"`
}

// NodeStatus is the state of a node and of its connection to the store.
type NodeStatus struct {
	Started time.Time `json:"started"`
	StoreUp bool      `json:"store_up"`
	// LastError is the last error of a failing store; nil: there was none.
	LastError  *NodeError    `json:"last_error,omitempty"`
	Memory     *NodeMemory   `json:"memory,omitempty"` // nil: the store is not in memory
	Leases     *NodeLeases   `json:"leases,omitempty"` // nil: nothing is leased
	Clocks     []NodeClock   `json:"clocks,omitempty"`
	Breakers   []NodeBreaker `json:"breakers,omitempty"`
	MoreShards int           `json:"more_shards,omitempty"` // number of shards that are left out
}

// NodeError is an error by its kind.
type NodeError struct {
	Kind string    `json:"kind"`
	Time time.Time `json:"time"`
}

// NodeMemory says how full the memory store is.
type NodeMemory struct {
	Keys      int    `json:"keys"`
	MaxKeys   int    `json:"max_keys"`
	Evictions uint64 `json:"evictions"`
}

// NodeLeases are the tokens that a node holds.
type NodeLeases struct {
	Keys   int   `json:"keys"`
	Tokens int64 `json:"tokens"`
}

// NodeClock is how far the clock of a server of the store is ahead of that of the node.
type NodeClock struct {
	Shard    string    `json:"shard"` // empty if the store has only one server
	SkewMS   float64   `json:"skew_ms"`
	Measured time.Time `json:"measured"`
}

// NodeBreaker is the circuit breaker of a server of the store.
type NodeBreaker struct {
	Shard   string `json:"shard"` // empty if the store has only one server
	Open    bool   `json:"open"`
	Opens   uint64 `json:"opens"`
	Refused uint64 `json:"refused"` // calls that it refused
}

// EncodeNode returns the stored form of a node.
func EncodeNode(n Node) (string, error) {
	text, err := json.Marshal(n)
	return string(text), err
}

// DecodeNodes parses results of [EncodeNode] and orders the nodes by id. It skips texts
// that it cannot parse: a later version of Stint may use another format.
func DecodeNodes(texts []string) []Node {
	nodes := make([]Node, 0, len(texts))
	for _, text := range texts {
		var n Node
		if json.Unmarshal([]byte(text), &n) == nil {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	return nodes
}

// ErrNone means that no such version exists or that its files are no longer
// kept.
var ErrNone = errors.New("there is no such version of the rules, or its files are no longer kept")

// ErrDamaged means that a stored version differs from the published one.
var ErrDamaged = errors.New("is damaged")

// ErrNumbers means that no version can be published, because another program
// has written a version whose number leaves no valid number after it.
var ErrNumbers = errors.New("the source has version numbers that Stint never gave out, and no higher number is left (run stint rules repair --source URL; for rule files, remove the newest version from --state-dir)")

// ErrReadOnly means that a source does not accept the version. A mounted
// ConfigMap accepts none. A single file does not accept a version of several
// files.
var ErrReadOnly = errors.New("the rules cannot be changed here")

// ConflictError means that another version was published in between.
type ConflictError struct {
	Newest Version // without its files; Number 0 when there is none
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("another version was published: the newest is now %d (see what it changed, then publish on top of it)", e.Newest.Number)
}

// BehindError means that another node runs a version that the source has lost
// and that this node never had. A partial change made here would lose the rest
// of that version.
type BehindError struct{ Ahead Node }

func (e *BehindError) Error() string {
	return fmt.Sprintf("node %s at %s runs version %d, which the source has lost and this node never had (make the change there, or publish a whole set)",
		e.Ahead.ID, e.Ahead.Address, e.Ahead.Version)
}

// InvalidError means that the source was read but its rules have mistakes. Err
// is [rule.Problems].
type InvalidError struct {
	Number uint64 // 0: the rules are not a version yet
	Err    error
}

func (e *InvalidError) Error() string {
	if e.Number == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("version %d: %v", e.Number, e.Err)
}

func (e *InvalidError) Unwrap() error { return e.Err }

// Hear implements [Source.Watch] for a source that announces versions. listen
// calls changed for each announcement until it fails. Hear calls it again one
// second later. Polling finds the versions whose announcements are missed.
func Hear(ctx context.Context, changed func(), listen func(ctx context.Context, changed func()) error, log *slog.Logger) {
	changed() // later versions are found by polling, even if announcements fail
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { poll(ctx, changed) })
	for said := ""; ; {
		err := listen(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Warn("rules: announcements of new versions do not arrive; the source is polled until they do", "every", PollEvery, "error", err)
		}
		if !pause(ctx, time.Second) {
			return
		}
	}
}

// poll calls changed every [PollEvery] until ctx ends. It starts after a random
// delay so that nodes do not poll at the same moment.
func poll(ctx context.Context, changed func()) {
	for wait := rand.N(PollEvery); pause(ctx, wait); wait = PollEvery {
		changed()
	}
}

// pause waits for d. It returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
