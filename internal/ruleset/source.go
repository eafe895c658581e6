package ruleset

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Source is where versions live. Everyone who has the same source sees the
// same versions. Its methods are safe for use by many goroutines at once.
type Source interface {
	// History lists at most n versions, the newest first, without their
	// files. It is empty when nothing was ever published. It is what a node
	// polls, so it is cheap for n = 1.
	History(ctx context.Context, n int) ([]Version, error)

	// Get returns a version whole. It fails with [ErrNone] when there is none
	// of that number, or when its files are no longer kept.
	Get(ctx context.Context, number uint64) (Version, error)

	// Publish makes v the newest version, if the newest is still the one
	// numbered after (0: there is none): else it fails with [*ConflictError]
	// and changes nothing. v.Number is above after. It returns v as it is kept.
	Publish(ctx context.Context, after uint64, v Version) (Version, error)

	// Watch calls changed whenever there may be a new version, also for
	// nothing, until ctx ends. A source that can miss an announcement calls it
	// every [PollEvery] beside. changed returns at once.
	Watch(ctx context.Context, changed func())

	// String says where the versions live, without passwords.
	String() string
}

// PollEvery is how often a source that announces versions is asked all the
// same.
const PollEvery = 10 * time.Second

// Fleet is a [Source] by which nodes tell each other which version they run.
type Fleet interface {
	// Announce says how this node is now. It is forgotten when it is not said
	// again within [ForgetAfter].
	Announce(ctx context.Context, n Node) error
	// Nodes lists who has announced itself, in order of their ids.
	Nodes(ctx context.Context) ([]Node, error)
}

// How often a node announces itself, and when one that is silent is forgotten.
const (
	AnnounceEvery = 5 * time.Second
	ForgetAfter   = 3 * AnnounceEvery
)

// Truncater is a [Source] that can forget versions.
type Truncater interface {
	// Truncate forgets every version numbered above the number, which somebody may
	// have written with whatever in it, and all else that keeps the numbers that
	// follow from being given out.
	Truncate(ctx context.Context, above uint64) error
}

// Node is a server as it announces itself.
type Node struct {
	ID      string    `json:"id"`              // of the process: another after a restart
	Address string    `json:"address"`         // where it serves, for people
	Version uint64    `json:"version"`         // that it runs
	Hash    string    `json:"hash"`            // of that version
	Since   time.Time `json:"since"`           // when it began to run it
	Stale   bool      `json:"stale,omitempty"` // see [Keeper.Stale]
}

// ErrNone means that there is no such version.
var ErrNone = errors.New("there is no such version of the rules, or its files are no longer kept")

// ErrDamaged means that what is kept of a version is not what was published.
var ErrDamaged = errors.New("is damaged")

// ErrNumbers means that no version can be published, because something else than
// Stint has written one with a number that no other can follow.
var ErrNumbers = errors.New("the source has numbers of versions that Stint never gave out, and none is left to publish by (run stint rules repair --source URL; of rule files, remove the newest version from --state-dir)")

// ErrReadOnly means that a source takes no such version: a mounted ConfigMap
// takes none, and one file none of several.
var ErrReadOnly = errors.New("the rules cannot be changed here")

// ConflictError means that somebody else published in between.
type ConflictError struct {
	Newest Version // without its files; Number 0 when there is none
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the newest version of the rules is %d by now (look at what it changed, then publish on top of it)", e.Newest.Number)
}

// BehindError means that the source has lost a version that another node runs
// and that this one never had: a change of a part, made here, would lose the
// rest.
type BehindError struct{ Ahead Node }

func (e *BehindError) Error() string {
	return fmt.Sprintf("node %s at %s runs version %d, which the source has lost and this node never had (make the change there, or publish a whole set)",
		e.Ahead.ID, e.Ahead.Address, e.Ahead.Version)
}

// InvalidError means that the source was read and that its rules have
// mistakes. Err is [rule.Problems].
type InvalidError struct {
	Number uint64 // 0: not a version yet
	Err    error
}

func (e *InvalidError) Error() string {
	if e.Number == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("version %d: %v", e.Number, e.Err)
}

func (e *InvalidError) Unwrap() error { return e.Err }
