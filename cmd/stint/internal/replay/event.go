package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// event is one request of the traffic.
type event struct {
	t     int64  // time, in microseconds since the Unix epoch
	line  int64  // line number in its input, from 1
	cost  int64  // 1 unless said
	at    int64  // for a refund: when the cost was taken; 0: unknown
	limit string // JSON of the limit from this event on; empty: no change
	// of a decision log: the hash of the caller, at least 1; 0 for other events
	caller uint64
	text   string // replaying a limit: the key; replaying rules: the whole line
	raw    string // the whole line
}

// fieldKind is the JSON type of a value.
type fieldKind uint8

const (
	kindNull fieldKind = iota
	kindText
	kindNumber
	kindBool
	kindCompound // an object or array; value is its JSON
)

// field is one named value of a line. If a name occurs twice, the last value
// counts.
type field struct {
	name, value string
	kind        fieldKind
}

// fields holds the values of a line. It implements rule.Attributes: strings,
// numbers and booleans are attributes; null, objects and arrays count as
// absent.
type fields []field

// Attribute returns the value of a name. "key" is used as api_key if the event
// has no api_key, unless it is a decision: that has its key shortened.
func (f fields) Attribute(name string) (string, bool) {
	value, ok := f.attribute(name)
	if !ok && name == "api_key" && !f.isLog() {
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

// find returns the last field with the name, or nil if that is null or missing.
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

// maxTime is the latest time that can be counted exactly, in the year 2255.
const maxTime = 1<<53 - 1

func checkTime(name string, t int64) error {
	if t < 0 || t > maxTime {
		return fmt.Errorf("%s: lies outside the years 1970 to 2255", name)
	}
	return nil
}

// read sets the event from the fields and the time of a line. A negative time means that the time is
// one of the fields.
func (e *event) read(f fields, t int64) error {
	if t < 0 {
		return e.readJSON(f)
	}
	e.t, e.cost = t, 1
	return nil
}

// readJSON sets the event from the members of a JSON line.
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

// cost returns the cost of the event: 1 by default, below 0 for a refund.
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

// takenAt returns the time at which a refunded cost was taken.
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

// time returns t_us, or t as RFC 3339. Digits below a microsecond are dropped.
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
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text.value)) // T and Z may be lower case
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

// limit returns the JSON of a change of limit. It is not validated here,
// because rules may use it as an ordinary attribute.
func (f fields) limit() string {
	change := f.find("limit")
	if change == nil {
		return ""
	}
	return change.json()
}

// json returns the value as JSON.
func (f *field) json() string {
	if f.kind == kindText {
		return string(appendQuoted(nil, f.value))
	}
	return f.value
}
