// Package table is the memory store's table of states: sharded, bounded,
// and free of pointers, so that millions of states cost the garbage collector
// nothing.
//
// A state is 16 bytes in a 32-byte [Slot], found by a 96-bit identity. A
// shard owns windows of address space outside the Go heap (where the system
// has mmap) and grows within them in place by about a tenth, so that a growing
// table never holds a second copy of itself and never pauses for long. A full
// shard is parted in two until there are as many as suit the bound, so that a
// small table is dense. Probing is linear from a pair of slots that share a
// cache line, at a load of at most 0.80. States that need more than 16 bytes
// keep a slice beside the table.
//
// It promises that the weight held never passes the bound, that a state found
// stays until it is deleted, found idle or evicted, and that one call works
// on one shard only. Idle states go when a shard is rebuilt: when it grows,
// and at most every ten seconds while new keys come to it.
//
// The caller locks a shard, works on it, and unlocks it; nothing here locks
// by itself except what is said to.
package table
