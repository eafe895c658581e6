package replay

import (
	"fmt"
	"strings"
)

// Format is the format of the lines of an input.
type Format uint8

// The formats. Combined adds a referer and a user agent to Common. The reader
// accepts these fields in either format, so the two are read alike.
const (
	Auto Format = iota // JSONL for a line that begins with {, else Combined
	Combined
	Common
	JSONL
)

var formatNames = [...]string{"auto", "combined", "common", "jsonl"}

// String returns the name that the command uses.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// ParseFormat returns the format with the name auto, combined, common or jsonl.
func ParseFormat(name string) (Format, error) {
	for i, known := range formatNames {
		if name == known {
			return Format(i), nil
		}
	}
	return 0, fmt.Errorf("format: %.40q is not known (use one of %s)", name, strings.Join(formatNames[:], ", "))
}

// read appends the fields of a line and sets the time and the cost of its
// event.
func (f Format) read(line string, all fields, e *event) (fields, error) {
	all, t, err := f.fields(line, all)
	if err != nil {
		return all, err
	}
	if t < 0 {
		return all, e.readJSON(all)
	}
	e.t, e.cost = t, 1
	return all, nil
}

// fields appends the fields of a line and returns its time. A negative time
// means that the time is one of the fields.
func (f Format) fields(line string, all fields) (fields, int64, error) {
	if f == JSONL || f == Auto && strings.HasPrefix(strings.TrimLeft(line, " \t"), "{") {
		all, err := readObject(line, all)
		return all, -1, err
	}
	return readAccessLog(line, all)
}
