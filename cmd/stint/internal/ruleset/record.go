package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stintdev/stint/rule"
)

// record is the stored form of a version: JSON that a person can read.
type record struct {
	Number  uint64    `json:"number"`
	Time    time.Time `json:"time"`
	Author  string    `json:"author,omitempty"`
	Comment string    `json:"comment,omitempty"`
	Hash    string    `json:"hash"`

	Repaired bool `json:"repaired,omitempty"`

	Files []recordFile `json:"files,omitempty"`
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
	for _, f := range v.Files {
		one := recordFile{Name: f.Name, Text: string(f.Data)}
		if !utf8.Valid(f.Data) {
			one.Text, one.Bytes = "", f.Data
		}
		r.Files = append(r.Files, one)
	}
	return json.Marshal(r)
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
	for _, f := range r.Files {
		data := f.Bytes
		if data == nil {
			data = []byte(f.Text)
		}
		v.Files = append(v.Files, rule.File{Name: f.Name, Data: data})
	}
	if v.Files != nil && HashOf(v.Files) != v.Hash {
		return Version{}, fmt.Errorf("version %d of the rules %w: its files are not those of its hash", v.Number, ErrDamaged)
	}
	return v, nil
}

// DecodeNumbered is Decode for the version with a known number. A record with
// another number is damaged.
func DecodeNumbered(number uint64, data []byte) (Version, error) {
	v, err := Decode(data)
	if err == nil && v.Number != number {
		return Version{}, fmt.Errorf("version %d of the rules %w: it says that it is version %d", number, ErrDamaged, v.Number)
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
		return nil, fmt.Errorf("%w: its checksum is another", ErrDamaged)
	}
	return []byte(rest), nil
}
