package quorumstore

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// at returns the part of a class: an empty one with the ballot of the next higher part if the
// row has none of the class itself.
func (r *row) at(class uint8) part {
	for _, p := range r.parts {
		if p.class == class {
			return p
		}
		if p.class > class {
			return part{class: class, ballot: p.ballot, expires: p.expires}
		}
	}
	return part{class: class}
}

// choose returns the newest part of each class that a row has, and of class upTo, by
// ascending class. agreed says that a majority of the rows of voters have those of the
// classes up to upTo: they are committed.
func choose(rows, voters []*row, upTo uint8, majority int) (chosen []part, agreed bool) {
	classes := make([]uint8, 1, 8)
	classes[0] = upTo
	for _, r := range rows {
		for i := range r.parts {
			if !slices.Contains(classes, r.parts[i].class) {
				classes = append(classes, r.parts[i].class)
			}
		}
	}
	slices.Sort(classes)
	chosen, agreed = make([]part, 0, len(classes)), true
	for _, class := range classes {
		newest := part{class: class}
		for _, r := range rows {
			if p := r.at(class); newest.ballot.below(p.ballot) {
				newest = p
			}
		}
		if chosen = append(chosen, newest); class > upTo {
			continue
		}
		same := 0
		for _, r := range voters {
			if r.at(class).ballot == newest.ballot {
				same++
			}
		}
		agreed = agreed && same >= majority
	}
	return chosen, agreed
}

// versionOf returns the version of an item. Each write writes the lowest class, so the ballot
// of that identifies the last one, whatever class the readers are old enough for. It is 0 if
// nothing was ever written.
func versionOf(chosen []part) uint64 {
	b := chosen[0].ballot
	if b == (ballot{}) {
		return 0
	}
	h := fnv.New64a()
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[:], uint64(b.t))
	binary.LittleEndian.PutUint64(buf[8:], uint64(b.id))
	_, _ = h.Write(buf[:])
	return max(1, h.Sum64())
}
