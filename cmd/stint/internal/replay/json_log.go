package replay

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/rule"
)

// jsonDialect describes the JSON access log of a program: which member is the
// time, and which members are attributes under another name or in another form.
// All other members are attributes under their own name.
type jsonDialect struct {
	kind    formatKind
	marks   []string // a line that has all of these members is of this dialect
	time    string
	members map[string]jsonMember
	// headers is the beginning of the names of members that are request headers.
	headers string
}

// jsonMember is how a member becomes an attribute.
type jsonMember struct {
	name string
	form valueForm
}

type valueForm uint8

const (
	asIs        valueForm = iota
	withoutPort           // the address of 192.0.2.1:443
	onlyPath              // the path of /a?b
	headerSet             // an object of headers
)

// jsonDialects lists the dialects. Their marks exclude each other.
var jsonDialects = [...]jsonDialect{
	{
		kind: cloudflareLog, marks: []string{"EdgeStartTimestamp"}, time: "EdgeStartTimestamp",
		members: map[string]jsonMember{
			"ClientIP": {name: "ip"}, "ClientRequestMethod": {name: "method"}, "ClientRequestHost": {name: "host"},
			"ClientRequestPath": {"path", onlyPath}, "ClientRequestURI": {"path", onlyPath},
			"ClientRequestUserAgent": {name: "header:user-agent"}, "ClientRequestReferer": {name: "header:referer"},
			"EdgeResponseStatus": {name: "status"}, "EdgeResponseBytes": {name: "bytes"}, "RequestHeaders": {form: headerSet},
		},
	},
	{
		kind: envoyLog, marks: []string{"start_time", "response_code"}, time: "start_time",
		members: map[string]jsonMember{
			"downstream_remote_address": {"ip", withoutPort},
			"method":                    {name: "method"}, ":method": {name: "method"},
			"path": {"path", onlyPath}, ":path": {"path", onlyPath}, "x-envoy-origin-path": {"path", onlyPath}, "x-envoy-original-path": {"path", onlyPath},
			"authority": {name: "host"}, ":authority": {name: "host"},
			"user_agent": {name: "header:user-agent"}, "user-agent": {name: "header:user-agent"},
			"referer":         {name: "header:referer"},
			"x_forwarded_for": {name: "header:x-forwarded-for"}, "x-forwarded-for": {name: "header:x-forwarded-for"},
			"request_id": {name: "header:x-request-id"}, "x-request-id": {name: "header:x-request-id"},
			"response_code": {name: "status"}, "bytes_sent": {name: "bytes"},
		},
	},
	{
		kind: traefikLog, marks: []string{"StartUTC", "RequestMethod"}, time: "StartUTC", headers: "request_",
		members: map[string]jsonMember{
			"ClientHost": {name: "ip"}, "ClientUsername": {name: "user"}, "RequestMethod": {name: "method"},
			"RequestPath": {"path", onlyPath}, "RequestHost": {name: "host"},
			"DownstreamStatus": {name: "status"}, "DownstreamContentSize": {name: "bytes"},
		},
	},
}

// readJSONLog reads a JSON object. Under autoFormat, its members tell whether it
// is a line of a dialect; if not, it is an event, and its time is negative.
func readJSONLog(kind formatKind, line string, all fields) (fields, int64, error) {
	all, err := readObject(line, all)
	if err != nil {
		return all, -1, err
	}
	d := dialectOf(kind, all)
	if d == nil {
		return all, -1, nil
	}
	t, err := d.timeOf(all)
	if err != nil {
		return all, t, err
	}
	return d.translate(all), t, nil
}

func dialectOf(kind formatKind, all fields) *jsonDialect {
	if kind == autoFormat && (all.find("t_us") != nil || all.find("t") != nil) {
		return nil
	}
	for i := range jsonDialects {
		d := &jsonDialects[i]
		if kind == d.kind || kind == autoFormat && !slices.ContainsFunc(d.marks, func(name string) bool { return all.find(name) == nil }) {
			return d
		}
	}
	return nil
}

// timeOf returns the time of a line: RFC 3339, or a whole number of seconds,
// milliseconds, microseconds or nanoseconds since 1970, told apart by its size. In
// quotes, seconds may have decimals, as in START_TIME(%s.%3f) of Envoy.
func (d *jsonDialect) timeOf(all fields) (int64, error) {
	f := all.find(d.time)
	if f == nil {
		return 0, errors.New("has no " + d.time)
	}
	if f.kind == kindText {
		t, err := timeOfText(f.value)
		if err != nil {
			return 0, fmt.Errorf("%s: %.40q is not a time such as 2026-03-03T07:12:04.5Z or 1772521924.5", d.time, f.value)
		}
		return t, checkTime(d.time, t)
	}
	t, err := f.whole()
	if err != nil {
		return 0, err
	}
	t = sinceEpoch(t)
	return t, checkTime(d.time, t)
}

// timeOfText returns the time of a text in microseconds.
func timeOfText(text string) (int64, error) {
	whole, decimals, cut := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		t, err := time.Parse(time.RFC3339, text)
		return t.UnixMicro(), err
	}
	t := sinceEpoch(int64(n))
	if !cut {
		return t, nil
	}
	if _, err := strconv.ParseUint(decimals, 10, 63); err != nil || n >= 1e11 { // of seconds alone
		return 0, errors.New("is not a time")
	}
	micros, err := strconv.ParseInt((decimals + "000000")[:6], 10, 64)
	return t + micros, err
}

// sinceEpoch returns a number of seconds, milliseconds, microseconds or nanoseconds in
// microseconds.
func sinceEpoch(t int64) int64 {
	switch {
	case t < 0: // out of range; multiplied, it could wrap around
	case t < 1e11:
		t *= 1e6
	case t < 1e14:
		t *= 1e3
	case t >= 1e17:
		t /= 1e3
	}
	return t
}

// translate gives the fields the names and forms of attributes.
func (d *jsonDialect) translate(all fields) fields {
	for i := range all {
		f := &all[i]
		member, known := d.members[f.name]
		switch {
		case known && member.form == headerSet:
			all = appendHeaders(all, f)
			continue
		case known:
			f.name, f.value = member.name, member.form.of(f.value)
		case d.headers != "" && strings.HasPrefix(f.name, d.headers):
			f.name = rule.AttributeName("header:" + f.name[len(d.headers):])
		}
		if f.value == "-" || f.value == "" {
			f.kind = kindNull
		}
	}
	return all
}

// appendHeaders appends the members of an object of headers.
func appendHeaders(all fields, set *field) fields {
	headers, err := readObject(set.value, nil)
	if err != nil {
		return all
	}
	for _, h := range headers {
		h.name = rule.AttributeName("header:" + h.name)
		all = append(all, h)
	}
	return all
}

func (v valueForm) of(value string) string {
	switch v {
	case withoutPort:
		return cutPort(value)
	case onlyPath:
		return cutQuery(value)
	default:
		return value
	}
}

// cutPort returns the address of 192.0.2.1:443 or [2001:db8::1]:443. Other text
// is unchanged.
func cutPort(address string) string {
	if inner, ok := strings.CutPrefix(address, "["); ok {
		if host, _, ok := strings.Cut(inner, "]"); ok {
			return host
		}
		return address
	}
	host, port, ok := strings.Cut(address, ":")
	if _, err := strconv.ParseUint(port, 10, 16); !ok || err != nil {
		return address
	}
	return host
}

func cutQuery(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}
