package stint

// MemoryOptions configures a [Memory] store. The zero value is useful.
type MemoryOptions struct {
	// MaxKeys bounds how many keys (states of one limit and key) are held.
	// Defaults to DefaultMaxKeys. A wide state (a log, a counter of many
	// buckets) counts as several. When full, the key with the most remaining
	// among those looked at makes room.
	MaxKeys int

	// Clock returns now in microseconds since the Unix epoch. Defaults to
	// the wall clock, read cheaply and never backwards. A test or a replay
	// brings its own.
	Clock func() int64

	// KeepAll never forgets a state, however idle, and ignores MaxKeys:
	// for replay, whose time may run back.
	KeepAll bool
}

// DefaultMaxKeys is the bound of a memory store that names none.
const DefaultMaxKeys = 10_000_000

// MemoryStats are counts of a [Memory] store since it was made.
type MemoryStats struct {
	Keys      int    // held now, idle ones that were not yet reclaimed included
	Evictions uint64 // states given up although they were not idle
	Unstored  uint64 // newcomers decided as fresh and not stored
	Full      bool   // the bound has been met at least once
}
