package quorumstore

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// record is a remembered group ([stint.Once]) in a part.
//
// It must not be found without the charges of its group, nor they without it: a repeat would be allowed
// without a charge, or charged twice. Parts of one write may be lost and kept apart, so each class of the
// charges has a copy. One more is in the class of its own life, and stays when a class of a shorter life
// has ended. A record is believed that is in all classes of its charges that have not ended.
type record struct {
	storekit.StoredState

	charges uint64 // a bit for each class that its group charged, in this write maybe with others
}

// ofRecords is the class of the life of records.
var ofRecords = classOfLife(stint.RememberFor)

// isIn reports whether a class gets a copy of the record.
func (r *record) isIn(class uint8) bool { return class == ofRecords || r.charges>>class&1 != 0 }

// ends returns when the charges of a class, at the latest, have no effect any more.
func (r *record) ends(class uint8) time.Time {
	if class >= 33 { // longer than a time.Duration has
		return r.Expires
	}
	return r.Expires.Add(time.Second<<class - stint.RememberFor)
}

// changed returns a bit for each class of a state that the new value changes, or does not have any more
// although it has not ended. The places are those of the states, without records.
func (d *division) changed(before, states []storekit.StoredState, places []place) (classes uint64) {
	at := 0
	for i := range states {
		if states[i].Remembers() {
			continue
		}
		if old, known := stateOf(before, states[i].Scope); !known || !bytes.Equal(old.Bytes, states[i].Bytes) {
			classes |= 1 << places[at].class
		}
		at++
	}
	for i := range before {
		if s := &before[i]; s.Remembers() || !s.Expires.After(d.decided) {
			continue
		}
		if _, kept := stateOf(states, before[i].Scope); !kept {
			if old, known := placeOf(d.places, before[i].Scope); known && old.class <= d.upTo {
				classes |= 1 << old.class
			}
		}
	}
	return classes
}

// records returns the records of the new value. Those that are not as they were read are of its changes: also
// one in place of a record that has ended.
func (d *division) records(states []storekit.StoredState, places []place) (all []record) {
	var before []storekit.StoredState
	var changed uint64
	for i := range states {
		if !states[i].Remembers() {
			continue
		}
		if all == nil {
			before = d.statesBefore()
			changed = d.changed(before, states, places)
		}
		r := record{StoredState: states[i], charges: changed}
		if at, known := placeOf(d.places, r.Scope); known {
			if old, _ := stateOf(before, r.Scope); bytes.Equal(old.Bytes, r.Bytes) {
				r.charges = at.charges
			}
		}
		all = append(all, r)
	}
	return all
}

// records returns the records of chosen parts that are believed by readers of a class, the newest of each
// group.
func (c *contents) records(upTo uint8, now time.Time) (all []record) {
	in := c.classesOfRecords()
	if in == nil {
		return nil
	}
	taken := map[string]bool{}
	for i := range c.parts {
		for j := range c.parts[i].records {
			r := &c.parts[i].records[j]
			if !taken[r.Scope] && c.believes(r, in[string(r.Bytes)], upTo, now) {
				taken[r.Scope] = true
				all = append(all, *r)
			}
		}
	}
	return all
}

// classesOfRecords returns a bit for each class that has a record, by the bytes of that: another record with the
// same id, of a group that has ended, is none of its copies. It is nil if there are no records.
func (c *contents) classesOfRecords() (in map[string]uint64) {
	for i := range c.parts {
		for j := range c.parts[i].records {
			if in == nil {
				in = map[string]uint64{}
			}
			in[string(c.parts[i].records[j].Bytes)] |= 1 << c.parts[i].class
		}
	}
	return in
}

// believes reports whether readers of a class believe a record that some classes have. Who writes a class knows
// its charges until they have ended. So one that was written without the record before that has lost them.
func (c *contents) believes(r *record, in uint64, upTo uint8, now time.Time) bool {
	for class := range upTo + 1 {
		if (r.charges&^in)>>class&1 == 0 {
			continue
		}
		if end := r.ends(class); end.After(now.Add(-maxSkew)) || c.row.at(class).ballot.t < end.UnixMicro() {
			return false
		}
	}
	return true
}

// recordsIn returns the records that have a copy in a class.
func recordsIn(class uint8, all []record) (in []record) {
	for i := range all {
		if all[i].isIn(class) {
			in = append(in, all[i])
		}
	}
	return in
}

// allOf returns those of the records in a part that are among some.
func allOf(some, in []record) (both []record) {
	for i := range in {
		if slices.ContainsFunc(some, func(r record) bool { return bytes.Equal(r.Bytes, in[i].Bytes) }) {
			both = append(both, in[i])
		}
	}
	return both
}

// appendRecords appends the number of records, and of each its classes and its state.
func appendRecords(data []byte, all []record) []byte {
	data = binary.AppendUvarint(data, uint64(len(all)))
	for i := range all {
		data = binary.AppendUvarint(data, all[i].charges)
		value := storekit.JoinValue([]storekit.StoredState{all[i].StoredState})
		data = append(binary.AppendUvarint(data, uint64(len(value))), value...)
	}
	return data
}

// splitRecords reads what appendRecords has appended, and returns what follows.
func splitRecords(data []byte) (all []record, left []byte, ok bool) {
	number := func() (n uint64) {
		n, size := binary.Uvarint(data)
		if ok = ok && size > 0; ok {
			data = data[size:]
		}
		return n
	}
	ok = true
	for n := number(); ok && n > 0; n-- {
		r := record{charges: number()}
		if size := number(); ok && size <= uint64(len(data)) {
			states, valid := storekit.SplitValue(data[:size])
			if !valid || len(states) != 1 || !states[0].Remembers() {
				return nil, nil, false
			}
			r.StoredState, data = states[0], data[size:]
			all = append(all, r)
			continue
		}
		return nil, nil, false
	}
	return all, data, ok
}
