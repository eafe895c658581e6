package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/rule"
)

// logLayout is a compiled log_format of nginx: variables, and the text between
// them. A value reaches up to the text that follows its variable. nginx escapes
// quotes in values, so a quote in the format ends a value for certain.
type logLayout struct {
	escape logEscape
	parts  []logPart
	tail   string // the text after the last variable
}

// logPart is a variable and the text before it.
type logPart struct {
	before   string
	variable string // without the dollar sign
	name     string // name of the attribute; empty for the time and the request
}

type logEscape uint8

const (
	escapeDefault logEscape = iota // \xXX
	escapeJSON
	escapeNone
)

// logVariables are the variables that are attributes under another name. A
// variable http_NAME is the header NAME, and any other variable is an attribute
// under its own name.
var logVariables = map[string]string{
	"remote_addr": "ip", "remote_user": "user", "request_method": "method", "request_uri": "path", "uri": "path", "document_uri": "path",
	"host": "host", "http_host": "host", "body_bytes_sent": "bytes", "bytes_sent": "bytes",
	"time_local": "", "time_iso8601": "", "msec": "", "request": "",
}

// ParseLogFormat returns the format of lines that nginx writes by a log_format:
// the text of its format, such as
//
//	$remote_addr [$time_local] "$request" $status
//
// alone or after escape=default, escape=json or escape=none, or the whole
// directive with the text in quotes.
func ParseLogFormat(text string) (Format, error) {
	layout, err := parseLogLayout(text)
	if err != nil {
		return Format{}, fmt.Errorf("log-format: %w", err)
	}
	return Format{kind: customLog, layout: layout}, nil
}

func parseLogLayout(text string) (l *logLayout, err error) {
	l = &logLayout{}
	text = strings.TrimSpace(text)
	rest, directive := strings.CutPrefix(text, "log_format ")
	if directive {
		_, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
	}
	rest = strings.TrimSpace(rest)
	if choice, found := strings.CutPrefix(rest, "escape="); found {
		end := strings.IndexAny(choice+" ", " \t\n")
		if l.escape, err = parseEscape(choice[:end]); err != nil {
			return nil, err
		}
		rest = strings.TrimSpace(choice[end:])
	}
	if directive {
		if rest, err = unquoteDirective(rest); err != nil {
			return nil, err
		}
	}
	if err = l.parse(rest); err != nil {
		return nil, err
	}
	return l, l.check()
}

func parseEscape(name string) (logEscape, error) {
	for i, known := range [...]string{escapeDefault: "default", escapeJSON: "json", escapeNone: "none"} {
		if name == known {
			return logEscape(i), nil
		}
	}
	return 0, fmt.Errorf("escape=%.20s is not known (use default, json or none)", name)
}

// unquoteDirective joins the quoted pieces of a directive.
func unquoteDirective(text string) (string, error) {
	var out strings.Builder
	text = strings.TrimSuffix(text, ";")
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		quote := text[0]
		if quote != '\'' && quote != '"' {
			return "", fmt.Errorf("%.20q is not in quotes (write the directive as in nginx.conf)", text)
		}
		i := 1
		for ; i < len(text) && text[i] != quote; i++ {
			if text[i] == '\\' && i+1 < len(text) && strings.IndexByte(`'"\`, text[i+1]) >= 0 {
				i++
			}
			out.WriteByte(text[i])
		}
		if i == len(text) {
			return "", errors.New("a quote is not closed")
		}
		text = text[i+1:]
	}
	return out.String(), nil
}

// parse splits the format at its variables, $name or ${name}.
func (l *logLayout) parse(text string) error {
	for {
		before, rest, found := strings.Cut(text, "$")
		if !found {
			l.tail = text
			return nil
		}
		braced := strings.HasPrefix(rest, "{")
		if braced {
			rest = rest[1:]
		}
		end := strings.IndexFunc(rest+" ", func(c rune) bool { return c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') })
		name := rest[:end]
		if rest = rest[end:]; braced {
			if !strings.HasPrefix(rest, "}") {
				return fmt.Errorf("${%.40s lacks its closing brace", name)
			}
			rest = rest[1:]
		}
		if name == "" {
			return fmt.Errorf("a $ has no name after it: %.20q", "$"+rest)
		}
		l.parts = append(l.parts, logPart{before, name, attributeOf(name)})
		text = rest
	}
}

// attributeOf returns the name of the attribute that a variable is.
func attributeOf(variable string) string {
	if name, known := logVariables[variable]; known {
		return name
	}
	if header, ok := strings.CutPrefix(variable, "http_"); ok {
		return rule.AttributeName("header:" + strings.ReplaceAll(header, "_", "-"))
	}
	return variable
}

// check refuses a format whose lines could not be read.
func (l *logLayout) check() error {
	timed := false
	for i, p := range l.parts {
		if i > 0 && p.before == "" {
			return fmt.Errorf("$%s and $%s have no text between them, so their values cannot be told apart", l.parts[i-1].variable, p.variable)
		}
		timed = timed || p.isTime()
	}
	if !timed {
		return errors.New("has no time (it needs $time_iso8601, $time_local or $msec)")
	}
	return nil
}

// names returns the attributes that a line can have.
func (l *logLayout) names() (names []string) {
	for _, p := range l.parts {
		if p.variable == "request" {
			names = append(names, "method", "path", "host")
		} else if p.name != "" {
			names = append(names, p.name)
		}
	}
	return names
}

// read appends the fields of a line and returns its time. Of several times, the
// one with fractions of a second counts.
func (l *logLayout) read(line string, f fields) (fields, int64, error) {
	t, exact := int64(0), false
	for i, p := range l.parts {
		rest, ok := strings.CutPrefix(line, p.before)
		if !ok {
			return f, 0, fmt.Errorf("does not match the log format before $%s", p.variable)
		}
		var value string
		if value, line, ok = l.cut(rest, i); !ok {
			return f, 0, fmt.Errorf("does not match the log format after $%s", p.variable)
		}
		if at, isTime, err := p.time(value); err != nil {
			return f, 0, err
		} else if isTime {
			if !exact {
				t, exact = at, p.variable == "msec"
			}
			continue
		}
		f = p.append(f, l.escape.decode(value))
	}
	if line != l.tail {
		return f, 0, errors.New("does not match the log format at its end")
	}
	return f, t, nil
}

// cut cuts the value of part i from the beginning of text.
func (l *logLayout) cut(text string, i int) (value, rest string, ok bool) {
	after := l.after(i)
	if after == "" {
		return text, "", true
	}
	for from := l.parts[i].least(text); ; {
		at := strings.Index(text[from:], after)
		if at < 0 {
			return "", "", false
		}
		at += from
		if (l.escape == escapeNone || !escapedAt(text, at)) && l.timeFollows(text[at:], i+1) {
			return text[:at], text[at:], true
		}
		from = at + 1
	}
}

// after returns the text after part i.
func (l *logLayout) after(i int) string {
	if i+1 < len(l.parts) {
		return l.parts[i+1].before
	}
	return l.tail
}

// timeFollows reports whether text begins with part i, if that part is a time.
// A value that clients choose, such as the user, may contain the text before the
// time, so that text alone does not end the value.
func (l *logLayout) timeFollows(text string, i int) bool {
	if i == len(l.parts) || !l.parts[i].isTime() {
		return true
	}
	p := &l.parts[i]
	value := text[len(p.before):]
	if after := l.after(i); after != "" {
		value = value[:min(len(value), longestTime+len(after))]
		from := p.least(value)
		end := strings.Index(value[from:], after)
		if end < 0 {
			return false
		}
		value = value[:from+end]
	}
	_, _, err := p.time(value)
	return err == nil
}

// longestTime bounds the text of a time.
const longestTime = 64

func (p *logPart) isTime() bool { return p.name == "" && p.variable != "request" }

// least returns how many bytes of text belong to the value for certain:
// $time_local has a space within it.
func (p *logPart) least(text string) int {
	const date = len("03/Mar/2026:07:12:05 ")
	if p.variable == "time_local" && len(text) >= date && text[date-1] == ' ' {
		return date
	}
	return 0
}

// escapedAt reports whether an odd number of backslashes precedes a byte.
func escapedAt(text string, at int) bool {
	unescaped := strings.TrimRight(text[:at], `\`)
	return (at-len(unescaped))%2 == 1
}

// time returns the time in µs if the variable is one.
func (p *logPart) time(value string) (t int64, ok bool, err error) {
	switch p.variable {
	case "time_local":
		t, err = readLogTime(value)
	case "time_iso8601":
		var at time.Time
		if at, err = time.Parse(time.RFC3339, value); err != nil {
			return 0, true, fmt.Errorf("has the time %.40q, which is not one such as 2026-03-03T07:12:04+00:00", value)
		}
		t, err = at.UnixMicro(), checkTime("time_iso8601", at.UnixMicro())
	case "msec":
		t, err = readSeconds(value)
	default:
		return 0, false, nil
	}
	return t, true, err
}

// readSeconds parses 1431857103.123.
func readSeconds(text string) (int64, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	micros := (fraction + "000000")[:6]
	s, err := strconv.ParseUint(whole, 10, 40)
	us, err2 := strconv.ParseUint(micros, 10, 32)
	if err != nil || err2 != nil {
		return 0, fmt.Errorf("has the time %.40q, which is not one such as 1431857103.123", text)
	}
	t := int64(s)*1_000_000 + int64(us)
	return t, checkTime("msec", t)
}

// append appends the attributes of a variable.
func (p *logPart) append(f fields, value string) fields {
	switch {
	case p.variable == "request":
		return appendRequest(f, value)
	case p.name == "path":
		value = cutQuery(value)
	}
	return appendText(f, p.name, value)
}

// decode decodes the escapes of a value.
func (e logEscape) decode(value string) string {
	if e == escapeNone || strings.IndexByte(value, '\\') < 0 {
		return value
	}
	if e == escapeDefault {
		return unescape(value)
	}
	var text string
	if json.Unmarshal([]byte(`"`+value+`"`), &text) != nil {
		return value
	}
	return text
}
