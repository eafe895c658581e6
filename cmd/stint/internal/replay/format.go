package replay

import (
	"fmt"
	"slices"
	"strings"
)

// Format is the format of the lines of an input. The zero value detects the
// format of each line.
type Format struct {
	kind   formatKind
	layout *logLayout // of customLog
}

type formatKind uint8

// The formats with a name. combined adds a referer and a user agent to common.
// The reader accepts these fields in either format, so the two are read alike.
const (
	autoFormat formatKind = iota
	combined
	common
	jsonl
	albLog
	cloudflareLog
	envoyLog
	traefikLog
	customLog // of ParseLogFormat
)

var formatNames = [...]string{autoFormat: "auto", combined: "combined", common: "common", jsonl: "jsonl",
	albLog: "alb", cloudflareLog: "cloudflare", envoyLog: "envoy", traefikLog: "traefik"}

// FormatNames returns the names that [ParseFormat] knows.
func FormatNames() []string { return slices.Clone(formatNames[:]) }

// ParseFormat returns the format with one of the [FormatNames].
func ParseFormat(name string) (Format, error) {
	for i, known := range formatNames {
		if name == known {
			return Format{kind: formatKind(i)}, nil
		}
	}
	return Format{}, fmt.Errorf("format: %.40q is not known (use one of %s)", name, strings.Join(formatNames[:], ", "))
}

// fields appends the fields of a line and returns its time. A negative time
// means that the time is one of the fields.
func (f Format) fields(line string, all fields) (fields, int64, error) {
	switch kind := f.kindOf(line); kind {
	case autoFormat, cloudflareLog, envoyLog, traefikLog:
		return readJSONLog(kind, line, all)
	case jsonl:
		all, err := readObject(line, all)
		return all, -1, err
	case albLog:
		return readALB(line, all)
	case customLog:
		return f.layout.read(line, all)
	default:
		return readAccessLog(line, all)
	}
}

// kindOf returns the kind of a line. It is autoFormat for a JSON object whose
// members decide.
func (f Format) kindOf(line string) formatKind {
	switch {
	case f.kind != autoFormat:
		return f.kind
	case strings.HasPrefix(strings.TrimLeft(line, " \t"), "{"):
		return autoFormat
	case isALB(line):
		return albLog
	}
	return combined
}

// names returns the attributes that a line can have. open means that it can have
// others too.
func (f Format) names(line string) (names []string, open bool) {
	switch f.kindOf(line) {
	case combined, common:
		return accessLogNames[:], false
	case albLog:
		return albNames[:], false
	case customLog:
		return f.layout.names(), false
	default:
		return nil, true
	}
}
