package storekit

import (
	"strings"
	"time"
)

// StoredState is one state in a value.
type StoredState struct {
	Scope   string    // identifies the limit in the value
	Expires time.Time // the time from which the state is as if never stored
	Bytes   []byte    // of the state in the value
}

// Remembers reports whether the state is that of a remembered group ([stint.Once]), and not of a limit.
func (s *StoredState) Remembers() bool { return strings.HasPrefix(s.Scope, onceMark) }

// SplitValue returns the states in a value, in its order. It returns false for bytes that are
// no value. A value without bytes has no states.
func SplitValue(value []byte) (states []StoredState, ok bool) {
	if len(value) == 0 {
		return nil, true
	}
	r := reader{left: value[1:], ok: value[0] == itemVersion}
	for r.ok && len(r.left) > 0 {
		from := r.left
		s := StoredState{Scope: string(r.text()), Expires: time.UnixMicro(int64(r.number()))}
		_ = r.text()
		s.Bytes = from[:len(from)-len(r.left)]
		states = append(states, s)
	}
	if !r.ok {
		return nil, false
	}
	return states, true
}

// JoinValue returns the value that has the states. It is nil if there are none.
func JoinValue(states []StoredState) (value []byte) {
	for i := range states {
		if value == nil {
			value = []byte{itemVersion}
		}
		value = append(value, states[i].Bytes...)
	}
	return value
}
