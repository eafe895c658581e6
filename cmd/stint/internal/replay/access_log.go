package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// accessLogNames are the attributes of a line of an access log.
var accessLogNames = [...]string{"ip", "user", "method", "path", "host", "status", "bytes", "header:referer", "header:user-agent"}

// readAccessLog parses a line of the common or combined log format of web
// servers:
//
//	host ident user [17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 512 "referer" "user agent" …
//
// The line is required to be complete up to the status. The fields after it
// (size, referer, user agent, custom fields) are optional; one that is
// truncated or malformed is ignored. A hyphen means no value.
func readAccessLog(line string, f fields) (fields, int64, error) {
	host, rest, _ := strings.Cut(line, " ")
	head, rest, ok := strings.Cut(rest, `] "`)
	// Clients choose the text of the user, which may have a bracket. It has no
	// quote: servers escape these.
	at := strings.LastIndex(head, " [")
	switch {
	case at < 0 || host == "":
		return f, 0, errors.New(`is not an access log line: it has no "host ident user [time]"`)
	case !ok:
		return f, 0, errors.New("ends before its request, or has none")
	}
	names, stamp := head[:at], head[at+len(" ["):]
	t, err := readLogTime(stamp)
	if err != nil {
		return f, 0, err
	}
	request, rest, ok := cutQuoted(rest)
	if !ok {
		return f, 0, errors.New("ends within its request")
	}
	f = appendText(f, "ip", host)
	_, user, _ := strings.Cut(names, " ")
	f = appendText(f, "user", user)
	f = appendRequest(f, request)
	f, err = appendResponse(f, rest)
	return f, t, err
}

func appendText(f fields, name, value string) fields {
	if value == "" || value == "-" {
		return f
	}
	return append(f, field{name, value, kindText})
}

// appendResponse parses the part after the request.
func appendResponse(f fields, rest string) (fields, error) {
	status, rest, _ := strings.Cut(strings.TrimPrefix(rest, " "), " ")
	if len(status) != 3 || strings.Trim(status, "0123456789") != "" {
		return f, fmt.Errorf("has the status %.20q, which is not three digits", status)
	}
	f = append(f, field{"status", status, kindText})
	size, rest, _ := strings.Cut(rest, " ")
	f = appendText(f, "bytes", size)
	for _, name := range [...]string{"header:referer", "header:user-agent"} {
		if !strings.HasPrefix(rest, `"`) {
			break
		}
		value, after, whole := cutQuoted(rest[1:])
		if !whole {
			break
		}
		f = appendText(f, name, value)
		rest = strings.TrimPrefix(after, " ")
	}
	return f, nil
}

// appendRequest parses "GET /path?query HTTP/1.1". Other text adds neither
// method nor path, such as the "-" of a connection without a request, or a TLS
// handshake on a plain port.
func appendRequest(f fields, request string) fields {
	method, target, ok := strings.Cut(request, " ")
	if !ok || !isMethod(method) {
		return f
	}
	if at := strings.LastIndex(target, " HTTP/"); at >= 0 {
		target = target[:at]
	}
	f = append(f, field{"method", method, kindText})
	if _, after, absolute := strings.Cut(target, "://"); absolute && !strings.HasPrefix(target, "/") {
		slash := strings.IndexAny(after+"/", "/?")
		f = appendText(f, "host", after[:slash])
		if target = after[slash:]; !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
	}
	return appendText(f, "path", cutQuery(target))
}

func isMethod(text string) bool {
	for i := range len(text) {
		if c := text[i] | 0x20; (c < 'a' || c > 'z') && text[i] != '-' && text[i] != '_' {
			return false
		}
	}
	return text != ""
}

// cutQuoted cuts text at its closing quote and decodes escapes.
func cutQuoted(text string) (value, rest string, ok bool) {
	escaped := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if value = text[:i]; escaped {
				value = unescape(value)
			}
			return value, text[i+1:], true
		case '\\':
			escaped = true
			i++
		}
	}
	return "", "", false
}

// unescape decodes the escapes of Apache (\" \\ \n \t \r \xhh) and nginx
// (\xhh). Other escapes stay as they are.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out.WriteByte(text[i])
			continue
		}
		c, length := unescapeOne(text[i:])
		out.WriteByte(c)
		i += length - 1
	}
	return out.String()
}

// unescapeOne decodes the escape at the start of text and returns its length.
func unescapeOne(text string) (byte, int) {
	if len(text) < 2 {
		return text[0], 1
	}
	switch text[1] {
	case '"', '\\':
		return text[1], 2
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'x':
		if len(text) >= 4 {
			if c, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
				return byte(c), 4
			}
		}
	}
	return text[0], 1
}

// readLogTime parses 17/May/2015:10:05:03 +0000.
func readLogTime(text string) (int64, error) {
	wrong := func() (int64, error) {
		return 0, fmt.Errorf("has the time %.40q, which is not one such as 17/May/2015:10:05:03 +0000", text)
	}
	if len(text) != 26 || text[2] != '/' || text[6] != '/' || text[11] != ':' ||
		text[14] != ':' || text[17] != ':' || text[20] != ' ' {
		return wrong()
	}
	d := digits{ok: true}
	day, year := d.read(text[0:2]), d.read(text[7:11])
	hour, minute, second := d.read(text[12:14]), d.read(text[15:17]), d.read(text[18:20])
	east := d.read(text[22:24])*3600 + d.read(text[24:26])*60
	if text[21] == '-' {
		east = -east
	} else if text[21] != '+' {
		return wrong()
	}
	// A leap second, 60, counts as the next second, as in Unix time.
	date := time.Date(year, monthOf(text[3:6]), day, hour, minute, second, 0, time.UTC)
	if !d.ok || monthOf(text[3:6]) == 0 || hour > 23 || minute > 59 || second > 60 || !sameDay(date, day, second) {
		return wrong()
	}
	t := (date.Unix() - int64(east)) * 1_000_000
	return t, checkTime("time", t)
}

// sameDay reports whether the day exists in its month: time.Date moves an
// invalid day to the next month.
func sameDay(date time.Time, day, second int) bool {
	return date.Add(-time.Duration(second)*time.Second).Day() == day
}

func monthOf(name string) time.Month {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	if at := strings.Index(names, name); at%3 == 0 {
		return time.Month(at/3 + 1)
	}
	return 0
}

// digits parses decimal numbers and records whether all of them were valid.
type digits struct{ ok bool }

func (d *digits) read(text string) int {
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			d.ok = false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n
}
