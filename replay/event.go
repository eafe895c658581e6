package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// event is one request of the traffic, as its line says it.
type event struct {
	t     int64  // when, in microseconds since the Unix epoch
	line  int64  // its number in its input, from 1
	cost  int64  // 1 unless said
	at    int64  // of a give-back: when it was taken; 0: not said
	limit string // the limit in force from here on, as JSON; empty: no change
	text  string // replaying a limit: whose use is counted; rules: the line
}

// fieldKind is what a JSON value was written as.
type fieldKind uint8

const (
	kindNull fieldKind = iota
	kindText
	kindNumber
	kindBool
	kindCompound // an object or array; value is its JSON
)

// field is one named part of a line. In a line that names one twice, the
// last counts.
type field struct {
	name, value string
	kind        fieldKind
}

// fields is what a line says. It implements rule.Attributes: text, numbers
// and booleans are attributes, null is as if absent, and so are objects and
// arrays.
type fields []field

// Attribute returns the value of a name. The caller's key of an event that
// names no api_key is its "key".
func (f fields) Attribute(name string) (string, bool) {
	value, ok := f.attribute(name)
	if !ok && name == "api_key" {
		return f.attribute("key")
	}
	return value, ok
}

func (f fields) attribute(name string) (string, bool) {
	if found := f.find(name); found != nil && found.kind != kindCompound {
		return found.value, true
	}
	return "", false
}

// find returns the last field of that name that is not null.
func (f fields) find(name string) *field {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].name == name {
			if f[i].kind == kindNull {
				return nil
			}
			return &f[i]
		}
	}
	return nil
}

// maxTime is the last time that can be counted exactly: the year 2255.
const maxTime = 1<<53 - 1

func checkTime(name string, t int64) error {
	if t < 0 || t > maxTime {
		return fmt.Errorf("%s: lies outside the years 1970 to 2255", name)
	}
	return nil
}

// readJSON fills in the event from the members of a JSON line.
func (e *event) readJSON(f fields) (err error) {
	if e.t, err = f.time(); err != nil {
		return err
	}
	if e.cost, err = f.cost(); err != nil {
		return err
	}
	if e.at, err = f.takenAt(); err != nil {
		return err
	}
	e.limit = f.limit()
	return nil
}

// cost is how much the event uses: 1 unless said, below 0 to give back.
func (f fields) cost() (int64, error) {
	said := f.find("cost")
	if said == nil {
		return 1, nil
	}
	cost, err := said.whole()
	if err == nil && (cost > stint.MaxCost || cost < -stint.MaxCost) {
		err = fmt.Errorf("cost: %d is out of range (use a whole number from %d to %d)", cost, -stint.MaxCost, stint.MaxCost)
	}
	return cost, err
}

// takenAt is when what is given back was taken.
func (f fields) takenAt() (int64, error) {
	at := f.find("at_us")
	if at == nil {
		return 0, nil
	}
	t, err := at.whole()
	if err != nil {
		return 0, err
	}
	return t, checkTime("at_us", t)
}

// time is t_us, or else t as RFC 3339, whose digits below a microsecond are
// dropped.
func (f fields) time() (int64, error) {
	if us := f.find("t_us"); us != nil {
		t, err := us.whole()
		if err != nil {
			return 0, err
		}
		return t, checkTime("t_us", t)
	}
	text := f.find("t")
	if text == nil {
		return 0, errors.New(`has no time (add "t_us" in microseconds since 1970, or "t" as RFC 3339)`)
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text.value)) // T and Z may be small
	if err != nil || text.kind != kindText {
		return 0, fmt.Errorf("t: %.40q is not a time (write it as \"2015-05-17T10:05:03Z\", or give t_us)", text.value)
	}
	return t.UnixMicro(), checkTime("t", t.UnixMicro())
}

func (f *field) whole() (int64, error) {
	if f.kind == kindNumber {
		if n, err := strconv.ParseInt(f.value, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s: %.40s is not a whole number of 64 bits", f.name, f.json())
}

// limit is the JSON of a change of limit. To rules it is an attribute like any
// other, so it may be anything here.
func (f fields) limit() string {
	change := f.find("limit")
	if change == nil {
		return ""
	}
	return change.json()
}

// json is the value as JSON.
func (f *field) json() string {
	if f.kind == kindText {
		return string(appendQuoted(nil, f.value))
	}
	return f.value
}
