package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/stintdev/stint/rule"
)

// Version is a rule set as it was published once. It never changes.
type Version struct {
	Number  uint64      // grows with each version, not always by one; 0: the built-in rules, before anything was published
	Time    time.Time   // when it was published, or met in a file
	Author  string      // who says so; empty for who edits a file
	Comment string      // why
	Hash    string      // see HashOf
	Files   []rule.File // what rule.Parse reads; nil in a history, or when only the rest was kept

	// Repaired says that numbers far above this one were given out by something
	// else than Stint: see [Repair]. Versions that follow keep it.
	Repaired bool

	set *rule.Set // of Files, when somebody has parsed them
}

// MaxNumber is the highest number that a version can have: the highest whole
// number that every reader of JSON reads exactly. Publishing never gets there.
// Sources pass over what is numbered above.
const MaxNumber = 1<<53 - 1

// farAhead is by how much no number is ever ahead of another that Stint gave out.
const farAhead = 1 << 32

// follows reports whether a version takes the place of the one that a node runs:
// its number is higher, or the node's is one that a repair has done away with.
func (v *Version) follows(now *Version) bool {
	if v.Number >= now.Number {
		return v.Number > now.Number
	}
	return v.Repaired && now.Number-v.Number > farAhead
}

// Set is the rules of the version. The error is [*InvalidError].
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

// listed is the version as a history shows it.
func (v Version) listed() Version {
	v.Files, v.set = nil, nil
	return v
}

// HashOf is the hexadecimal SHA-256 over names and contents, in their order:
// two versions with the same hash are the same rules.
func HashOf(files []rule.File) string {
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%d:%s%d:", len(f.Name), f.Name, len(f.Data)) // a hash never fails
		_, _ = io.Writer(h).Write(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}
