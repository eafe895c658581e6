package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/stintdev/stint/rule"
)

// Version is a published rule set. It is immutable.
type Version struct {
	Number  uint64      // increases with each version, not always by one; 0: the built-in rules, before any publish
	Time    time.Time   // when it was published, or first read from a file
	Author  string      // the publisher; empty for an edited file
	Comment string      // reason for the change
	Hash    string      // see HashOf
	Files   []rule.File // input of rule.Parse; nil in a history, or when only the metadata is kept

	// Repaired means that another program had given out numbers far above this one:
	// see [Repair]. Later versions keep the flag.
	Repaired bool

	set *rule.Set // the parsed Files, if available
}

// MaxNumber is the highest number of a version: the largest integer that every
// JSON parser reads exactly. Regular publishing never reaches it. Sources
// ignore versions with higher numbers.
const MaxNumber = 1<<53 - 1

// farAhead bounds the distance between two numbers that Stint gave out. A
// larger distance means that another program wrote the higher one.
const farAhead = 1 << 32

// follows reports whether v replaces the version that a node runs: its number
// is higher, or a repair has invalidated the node's number.
func (v *Version) follows(now *Version) bool {
	if v.Number >= now.Number {
		return v.Number > now.Number
	}
	return v.Repaired && now.Number-v.Number > farAhead
}

// Set returns the parsed rules of the version. The error is [*InvalidError].
func (v *Version) Set() (*rule.Set, error) {
	if v.set != nil {
		return v.set, nil
	}
	set, err := rule.Parse(v.Files...)
	if err != nil {
		return nil, &InvalidError{Number: v.Number, Err: err}
	}
	v.set = set
	return set, nil
}

// listed returns the version without its files, as in a history.
func (v Version) listed() Version {
	v.Files, v.set = nil, nil
	return v
}

// HashOf returns the hexadecimal SHA-256 of the names and contents in order.
// Versions with equal hashes have the same rules.
func HashOf(files []rule.File) string {
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%d:%s%d:", len(f.Name), f.Name, len(f.Data)) // a hash never returns an error
		_, _ = io.Writer(h).Write(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}
