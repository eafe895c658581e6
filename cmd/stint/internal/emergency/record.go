package emergency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stintdev/stint"
)

// Bounds of an emergency. The upper bound is short, because a limit that stays belongs into
// the rules.
const (
	MinDuration = time.Second
	MaxDuration = 24 * time.Hour
)

// Bounds of the texts of a record, in bytes.
const (
	maxText   = 2000
	maxName   = 256
	maxRecord = 16 << 10
)

// Record is one switching of the emergency, on or off.
type Record struct {
	// Revision identifies the switching. It is empty in the zero Record, which says that
	// nobody has switched.
	Revision string `json:"revision"`
	On       bool   `json:"on"`
	// Limit and By are what is allowed, such as "10/s", and the attribute whose values are
	// counted, such as "ip". Both are empty if the record switches off.
	Limit string `json:"limit,omitempty"`
	By    string `json:"by,omitempty"`
	// Since and Until bound the time in which the record is valid, by the clock of the
	// source. A record that switches off is valid for MaxDuration, so that it outlives
	// every emergency that it ends.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Author and Reason say who switched, and why.
	Author string `json:"author,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Source is a source of rules that also carries the switch. Its methods are safe for
// concurrent use.
type Source interface {
	// Emergency returns the newest record, and how long it is still valid by the clock of
	// the source. It returns the zero Record if there is none. Every node calls it each
	// [PollEvery].
	Emergency(ctx context.Context) (r Record, left time.Duration, err error)
	// SwitchEmergency makes r the newest record for the duration d, and returns it with the
	// times of the source. If after is not empty, the newest record must have that revision,
	// and with [NoRecord] no record may be valid; otherwise the error is [ErrChanged] and
	// nothing changes.
	SwitchEmergency(ctx context.Context, r Record, d time.Duration, after string) (Record, error)
}

// NoRecord stands for the revision of the newest record where a source must have no valid one. No
// record has this revision.
const NoRecord = "-"

// ErrChanged means that somebody else has switched in between.
var ErrChanged = errors.New("somebody else has switched the emergency in the meantime")

// Encode returns the stored form of a record.
func Encode(r Record) (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// Decode parses a result of Encode, and checks what the record says: other programs can
// write to the source.
func Decode(text string) (r Record, err error) {
	if len(text) > maxRecord {
		return Record{}, fmt.Errorf("the record of the emergency has %d bytes (at most %d are valid)", len(text), maxRecord)
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Record{}, fmt.Errorf("the record of the emergency is not valid: %w", err)
	}
	return r, r.check()
}

func (r *Record) check() error {
	for _, part := range [...]struct {
		name, text string
		most       int
	}{{"revision", r.Revision, maxName}, {"by", r.By, maxName}, {"author", r.Author, maxName}, {"reason", r.Reason, maxText}} {
		if len(part.text) > part.most || !utf8.ValidString(part.text) || strings.ContainsFunc(part.text, isControl) {
			return fmt.Errorf("%s: is longer than %d bytes, or has control characters", part.name, part.most)
		}
	}
	switch {
	case r.Revision == "":
		return errors.New("the record of the emergency has no revision")
	case !r.On:
		return nil
	case r.By == "":
		return errors.New("by: is missing (give an attribute, such as ip)")
	}
	_, err := ParseLimit(r.Limit)
	return err
}

func isControl(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }

// ParseLimit reads the limit of an emergency, such as "10/s". The error says what is wrong
// and how to write it.
func ParseLimit(text string) (stint.Limit, error) {
	if text == "" {
		return stint.Limit{}, errors.New("limit: is missing (write it as 10/s)")
	}
	return stint.ParseLimit(text)
}

// CheckDuration returns an error for a duration that no emergency may have.
func CheckDuration(d time.Duration) error {
	if d < MinDuration || d > MaxDuration {
		return fmt.Errorf("for: %v is out of range (give 1s to 24h; a limit that stays belongs into the rules)", d)
	}
	return nil
}
