// Package table is the memory store's table of states. It is sharded and
// bounded, and holds no pointers, so that millions of states cost the garbage
// collector nothing.
//
// A state is 16 bytes in a 32-byte [Slot], found by a 96-bit identity. A
// shard owns windows of address space outside the Go heap (where the system
// has mmap). It grows in place within them, by about a tenth at a time, so that
// a growing table never holds a second copy of itself and never pauses for
// long. A full shard is split in two until the table has the number of shards
// that suits its bound, so that a small table is dense. Probing is linear from
// a pair of slots that share a cache line, at a load of at most 0.80. States
// that need more than 16 bytes keep a slice beside the table.
//
// The package makes three promises. Adding a state never takes the weight held
// above the bound; [Table.Charge] may exceed it for a while. A stored state
// stays until it is deleted, found idle or evicted. One call works on one shard
// only, except for a search for a state to evict. Idle states are dropped when a
// shard is rebuilt: when it grows, and at most every ten seconds while new keys
// come to it.
//
// The caller locks a shard, works on it, and unlocks it. Functions that lock by
// themselves say so.
package table
