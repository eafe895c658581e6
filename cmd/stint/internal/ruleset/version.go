package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

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

	// Canary is the trial of other rules that the version is for; nil: it has none.
	Canary *Canary

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
	if v.Canary != nil {
		c := *v.Canary
		c.Files = nil
		v.Canary = &c
	}
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

// record is the stored form of a version: JSON that a person can read.
type record struct {
	Number  uint64    `json:"number"`
	Time    time.Time `json:"time"`
	Author  string    `json:"author,omitempty"`
	Comment string    `json:"comment,omitempty"`
	Hash    string    `json:"hash"`

	Repaired bool `json:"repaired,omitempty"`

	Canary *canaryRecord `json:"canary,omitempty"` // before the files: pgrules finds it there

	Files []recordFile `json:"files,omitempty"`
}

// canaryRecord is the stored form of a canary.
type canaryRecord struct {
	Control    uint64        `json:"control"`
	Share      float64       `json:"share"`
	By         string        `json:"by"`
	Seed       string        `json:"seed"`
	Soak       time.Duration `json:"soak_ns,omitempty"`
	AbortAbove float64       `json:"abort_above"`
	Hash       string        `json:"hash"`
	Files      []recordFile  `json:"files,omitempty"`
}

// recordFile is a file as text, or as bytes if it is not valid UTF-8.
type recordFile struct {
	Name  string `json:"name"`
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
}

// Encode returns the stored form of a version. It omits the files if the
// version has none.
func Encode(v Version) ([]byte, error) {
	r := record{Number: v.Number, Time: v.Time.UTC(), Author: v.Author, Comment: v.Comment, Hash: v.Hash, Repaired: v.Repaired}
	r.Files = recordFiles(v.Files)
	if c := v.Canary; c != nil {
		r.Canary = &canaryRecord{c.Control, c.Share, c.By, c.Seed, c.Soak, c.AbortAbove, c.Hash, recordFiles(c.Files)}
	}
	return json.Marshal(r)
}

func recordFiles(files []rule.File) (list []recordFile) {
	for _, f := range files {
		one := recordFile{Name: f.Name, Text: string(f.Data)}
		if !utf8.Valid(f.Data) {
			one.Text, one.Bytes = "", f.Data
		}
		list = append(list, one)
	}
	return list
}

// EncodeListed returns the stored form of a version without its files.
func EncodeListed(v Version) ([]byte, error) { return Encode(v.listed()) }

// Decode parses the result of [Encode]. It fails when the files do not match
// the hash.
func Decode(data []byte) (Version, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return Version{}, fmt.Errorf("a version of the rules %w: %w", ErrDamaged, err)
	}
	v := Version{Number: r.Number, Time: r.Time, Author: r.Author, Comment: r.Comment, Hash: r.Hash, Repaired: r.Repaired}
	v.Files = filesOf(r.Files)
	if v.Files != nil && HashOf(v.Files) != v.Hash {
		return Version{}, fmt.Errorf("version %d of the rules %w: its files do not match its hash", v.Number, ErrDamaged)
	}
	if r.Canary != nil {
		v.Canary = r.Canary.canary()
		if v.Canary == nil || v.Files != nil && (v.Canary.Files == nil || HashOf(v.Canary.Files) != v.Canary.Hash) {
			return Version{}, fmt.Errorf("version %d of the rules %w: its canary is not valid, or the files do not match their hash", v.Number, ErrDamaged)
		}
	}
	return v, nil
}

// DecodeCanary parses the canary in the stored form of a version. It returns nil for a text that
// is none.
func DecodeCanary(text string) *Canary {
	var r canaryRecord
	if text == "" || json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	return r.canary()
}

// canary returns the canary of a record, or nil if its numbers are out of range.
func (r *canaryRecord) canary() *Canary {
	o := CanaryOptions{r.Share, r.Soak, r.AbortAbove}
	if o.Validate() != nil {
		return nil
	}
	return &Canary{r.Control, r.Share, r.By, r.Seed, r.Soak, r.AbortAbove, r.Hash, filesOf(r.Files)}
}

func filesOf(list []recordFile) (files []rule.File) {
	for _, f := range list {
		data := f.Bytes
		if data == nil {
			data = []byte(f.Text)
		}
		files = append(files, rule.File{Name: f.Name, Data: data})
	}
	return files
}

// DecodeNumbered is Decode for the version with a known number. A record with
// another number is damaged.
func DecodeNumbered(number uint64, data []byte) (Version, error) {
	v, err := Decode(data)
	if err == nil && v.Number != number {
		return Version{}, fmt.Errorf("version %d of the rules %w: its record says version %d", number, ErrDamaged, v.Number)
	}
	return v, err
}

// seal prepends a checksum to a record, so that corruption on disk is detected.
func seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append([]byte(hex.EncodeToString(sum[:])+"\n"), data...)
}

// unseal verifies the checksum and returns the record.
func unseal(data []byte) ([]byte, error) {
	sum, rest, _ := strings.Cut(string(data), "\n")
	if want := sha256.Sum256([]byte(rest)); sum != hex.EncodeToString(want[:]) {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrDamaged)
	}
	return []byte(rest), nil
}
