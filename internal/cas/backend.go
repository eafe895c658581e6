package cas

import (
	"context"
	"time"
)

// MaxKey is the greatest length of a key that a [Backend] gets, in bytes. Longer keys of
// claims are hashed before. A key has any bytes: zeros, spaces and bytes that are not
// UTF-8 too.
const MaxKey = 200

// MaxValue is the greatest length of a value that a [Backend] gets, in bytes.
const MaxValue = 64 << 10

// Backend keeps one item for each key: a value of bytes with a version. It is safe for
// concurrent use.
//
// # Contexts
//
// Each method returns soon after its context ends. The context always has a deadline, at
// most [Options.Timeout] away. It is not that of one caller: a batch carries the calls of
// several.
//
// # Errors
//
// Every error is a [*stint.Error], and its Code and Kind say what package guard makes of
// it:
//
//   - CodeUnavailable: the server cannot be reached, refuses the credentials, lacks a
//     right or a table, is too old, is read-only, is full, or has no free connection.
//     Problem says which, Mend says what an operator does about it, and Kind is a short
//     word such as "connection", "noauth", "noperm", "version", "readonly", "oom". Guard
//     counts it as a failure of the server. Use it only if nothing was written.
//   - CodeTimeout: the call was sent and not answered (the deadline passed, or the
//     connection broke). Guard counts it as a failure. [NoAnswer] makes it.
//   - CodeExhausted with [KindThrottled]: the server asks for fewer calls. [Throttled]
//     makes it. The store tries again a little later, within the deadline of the caller.
//     Guard does not count it, and the failure policy of the claim decides.
//   - CodeInternal with [stint.KindGarbled]: an answer that the backend cannot read. Guard
//     counts it.
//
// A backend does not return CodeContended: it reports [Lost], and the store decides when
// to give up. An error of one key, such as a key whose item has another type, has
// [stint.KindCorrupt] or [stint.KindWrongType] in the Err of that load or swap, and does
// not fail the others of the batch.
//
// A backend that counts something implements Metered of package storekit; the store adds its
// metrics.
//
// An error that a method returns concerns the whole batch. It is the error of each load,
// and of each swap whose Outcome the method has not set: such a swap is Failed after
// CodeUnavailable and CodeExhausted, and Unknown after other codes.
type Backend interface {
	// Load reads the items of keys, each of which occurs once, and stores them in loads.
	// A read sees every write that was answered before Load was called: it goes to the
	// master, and is consistent.
	//
	// now is the time of the server when it read, or the zero time if the server has no
	// clock that decisions can use. The clock of this process decides then.
	Load(ctx context.Context, loads []Load) (now time.Time, err error)

	// Swap makes each swap whose version is still the one that was read, independently
	// of the others, and sets the outcome of each. The keys are those of different items, in
	// ascending order. now is the time of the server at any point of the call, or the
	// zero time if only Load tells it.
	Swap(ctx context.Context, swaps []Swap) (now time.Time, err error)
}

// Item is what is stored under a key.
type Item struct {
	// Value is nil if there is no item. An item that has expired and one that has not are
	// the same to the store: a backend need not hide an item because it has expired.
	Value []byte
	// Version differs between any two writes of one key, also after the item was deleted
	// and created again. It is 0 if and only if there is no item.
	Version uint64
	// Memo is the backend's own: what it knows of the item. The store hands it back in
	// [Swap.Memo], and asks it no more than what a [Covering] has.
	Memo any
	// Settled says that no write that was sent before this read can be made any more, or a part of
	// it, unless the item has it. It says so of the states that live no longer than the load's
	// Horizon.
	Settled bool
}

// Covering is a Memo of an item that may lack writes that a reader with a shorter horizon
// does not need.
type Covering interface {
	// Covers reports whether the item is what a [Load] with this horizon may return.
	Covers(horizon time.Duration) bool
}

// Load is one key to read.
type Load struct {
	Key string
	// Horizon is the longest time after which a write that the item may lack makes no
	// difference to the reader, because its states then equal fresh ones. 0 means that it
	// is unknown, and any write may make one.
	Horizon time.Duration
	// New says that the store most likely writes the item next if there is none. A backend
	// may prepare that write.
	New bool
	// Settle is not zero if the outcome of a write of the key is unknown, and the item is to decide
	// it: it is the time until which that write would be kept. A backend that could still make a part
	// of such a write, although the key has been written since, makes sure that it cannot until then,
	// and sets Item.Settled. Others ignore it.
	Settle time.Time

	Item Item  // set by the backend
	Err  error // set by the backend if this key could not be read and others may have been
}

// Swap is one item to write if its version is still the one that was read.
type Swap struct {
	Key string
	Old uint64 // the version that was read; 0: there was no item, and there must be none
	// Memo is that of the item that was read. A backend that sets Written replaces it by
	// that of the item that the key has now.
	Memo any
	// Decided is the time of the decision, which the states in Value expire after. It is the
	// zero time if Value is not an item of limits.
	Decided time.Time
	// Read is the value that was read. Lives has the longest life of a state for the scope
	// ([storekit.ScopeOf]) of each limit of the calls. Both are set if Memo is a [Covering].
	Read  []byte
	Lives map[string]time.Duration
	// Value is the new value. It is never empty. The backend must not change it, and must
	// not keep it after Swap returns.
	Value []byte
	// Version is a random number above 0 and below 2^63, unlike that of any other swap. A
	// backend whose server has no versions stores it beside the value, as the item's new
	// version. Others ignore it.
	Version uint64
	// TTL is how long the server must keep the item, from now. It includes a slack for
	// clocks that differ. The server may keep the item for longer.
	TTL time.Duration
	// NotBefore is the time of the decision if the store has computed it, and the zero time
	// otherwise. A backend that returns times makes the swap only if the clock of its server
	// shows that time or a later one, in the step that makes it. It is Lost otherwise, and Swap
	// returns the time of the server. A backend of several servers may make the swap, and
	// return once their clock shows that time. Only Swap gets such swaps; their Old is never 0.
	NotBefore time.Time
	// Keep says that the store remembers the item once it is written, and so needs Written.
	Keep bool

	// Outcome is set by the backend.
	Outcome Outcome
	// Current is set by the backend after Lost if Known is set: the item that is there
	// instead. It saves a read.
	Current Item
	Known   bool
	// Written is set by the backend after Done, if Keep is set: the version that the item
	// has now. 0 means that the backend does not know it, and the next swap of the key
	// needs a read before.
	Written uint64
	// Err is set by the backend after Unknown and Failed, unless Swap returns an error.
	Err error
}

// Outcome is what became of a [Swap].
type Outcome uint8

// The outcomes.
const (
	// Unknown: the write was sent, and may or may not have been made, or may be made
	// later. The store finds out by a read if time is left. It never repeats such a
	// write unless it is certain that the first one cannot happen any more. This is the
	// zero value, so that an outcome that a backend forgot to set is not taken for
	// another.
	Unknown Outcome = iota
	// Done: the write was made.
	Done
	// Lost: the version was another one. Nothing was written, and nothing will be.
	Lost
	// Failed: nothing was written, and nothing will be, for another reason. Err says why.
	Failed
)

// Atomic is a [Backend] that can write several items in one transaction. Groups across
// identities are then as atomic as others. On other backends the store takes their claims
// key by key, and refunds them if one is denied.
type Atomic interface {
	// SwapAll makes all swaps or none, in one transaction. The outcomes are either all
	// Done, all Lost, all Failed or all Unknown. After Lost, Known and Current are set for
	// those swaps of which the backend knows what is there now, whether it differs or not.
	// There are at most [Options.MaxBatch] swaps, in ascending order of their keys, which
	// is the order in which to lock them.
	SwapAll(ctx context.Context, swaps []Swap) (now time.Time, err error)
}

// Locker is a [Backend] that can keep others from writing. The store uses it for items
// that it has lost three times in a row, because a lock makes those who wait for it
// advance in turn.
type Locker interface {
	// Locked locks the keys, which are in ascending order, and reads their items. It then
	// calls decide once with these items, in the order of the keys, makes the swaps that
	// decide returns, and unlocks. decide takes microseconds and does no I/O; it returns
	// no swaps if there is nothing to write. There are several keys only if the backend is
	// [Atomic], and all swaps are then made or none.
	//
	// Locked returns the swaps of decide with their outcomes. They may be Lost: a lock
	// that only those who use Locked respect is enough, and so is one that runs out by
	// itself. An error means that decide was not called; nothing was written.
	Locked(ctx context.Context, keys []string, decide func(items []Item, now time.Time) []Swap) ([]Swap, error)
}

// Sharded is a [Backend] that spreads its keys over several servers, each of which may
// fail alone. A batch then has the keys of one server alone.
type Sharded interface {
	// Shards returns the names of the servers, the same ones for the life of the backend.
	Shards() []string
	// ShardOf returns the index in Shards of the server that has a key.
	ShardOf(key string) int
}

// Prober is a [Backend] that has connections of its own, which package guard closes while
// a server fails. A backend that is not [Sharded] has one shard, named "".
type Prober interface {
	// Probe returns nil if the shard could serve a check: it also needs to be writable. It
	// works while the shard is stopped, and closes what it opened then.
	Probe(ctx context.Context, shard string) error
	// Stop closes the connections to a shard, so that nothing more is sent. Until Start,
	// calls fail at once, with CodeUnavailable. Calls in flight fail with CodeTimeout.
	Stop(shard string)
	// Start ends a Stop.
	Start(shard string)
}

// Announcer is a [Backend] that keeps the announcements of nodes in a way of its own, such
// as in a table. On other backends the store keeps them in one item.
type Announcer interface {
	// Announce says that the node id is alive for the given time, or leaves if it is 0.
	Announce(ctx context.Context, id string, lasts time.Duration) (Announced, error)
}

// Announced is the answer to an announcement.
type Announced struct {
	Now   time.Time // of the server, when it answered; zero: it has no clock
	Nodes int       // announced nodes, including this one
	Known bool      // this node was announced before, and that has not run out
}
