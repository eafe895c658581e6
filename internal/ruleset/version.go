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

	set *rule.Set // of Files, when somebody has parsed them
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
