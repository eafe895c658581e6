package quorumstore

import (
	"math/bits"
	"time"
)

// tooYoung is the class of a server that is too young for every class.
const tooYoung = -1

// classOfLife returns the class of states that live for a time: the least c with a life of at
// most 2^c seconds.
func classOfLife(life time.Duration) uint8 {
	seconds := uint64(max(life+time.Second-1, 0) / time.Second)
	if seconds <= 1 {
		return 0
	}
	return uint8(bits.Len64(seconds - 1))
}

// classOfHorizon returns the class that readers must be old enough for. 0 is any time.
func classOfHorizon(horizon time.Duration) int {
	if horizon <= 0 {
		return maxClass
	}
	return int(classOfLife(horizon))
}

// oldEnough returns the greatest class that a server is old enough for: it has seen all that
// was accepted for longer than the states of the class live.
func (a *about) oldEnough(slack time.Duration) int {
	if a.ever {
		return maxClass
	}
	seconds := (a.time - a.birth - slack.Microseconds()) / 1_000_000
	if seconds < 1 {
		return tooYoung
	}
	return bits.Len64(uint64(seconds)) - 1
}

// matures returns how long it takes until a server is old enough for a class.
func (a *about) matures(class int, slack time.Duration) time.Duration {
	if class >= 33 { // longer than a time.Duration has
		return 1<<63 - 1
	}
	age := time.Duration(a.time-a.birth) * time.Microsecond
	return max(0, time.Second<<class+slack-age)
}
