package replay

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const stamp = " - - [17/May/2015:10:05:03 +0000] "

func TestReadAccessLog(t *testing.T) {
	get := fields{{"ip", "192.0.2.1", kindText}, {"method", "GET", kindText}, {"path", "/a", kindText}, {"status", "200", kindText}}
	with := func(more ...field) fields { return append(slices.Clone(get), more...) }
	size := field{"bytes", "512", kindText}
	referer, agent := field{"header:referer", "http://e.example/", kindText}, field{"header:user-agent", "Agent 1", kindText}
	for name, test := range map[string]struct {
		line string
		want fields
	}{
		"common":              {`192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200 512`, with(size)},
		"combined":            {`192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200 512 "http://e.example/" "Agent 1"`, with(size, referer, agent)},
		"trailingFields":      {`192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200 512 "http://e.example/" "Agent 1" "192.0.2.7" 0.003 -`, with(size, referer, agent)},
		"trailingAfterCommon": {`192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200 512 0.003 x`, with(size)},
		"hyphens":             {`192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200 - "-" "-"`, get},
		"cutInTheAgent":       {`192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200 512 "http://e.example/" "Age`, with(size, referer)},
		"cutAfterTheStatus":   {`192.0.2.1` + stamp + `"GET /a HTTP/1.1" 200`, get},
		"query":               {`192.0.2.1` + stamp + `"GET /a?b=/c HTTP/1.1" 200 -`, get},
		"withoutVersion":      {`192.0.2.1` + stamp + `"GET /a" 200 -`, get},
		"absoluteForm":        {`192.0.2.1` + stamp + `"GET http://h.example/a?b HTTP/1.1" 200 -`, fields{get[0], get[1], {"host", "h.example", kindText}, get[2], get[3]}},
		"absoluteWithoutPath": {`192.0.2.1` + stamp + `"GET http://h.example?b HTTP/1.1" 200 -`, fields{get[0], get[1], {"host", "h.example", kindText}, {"path", "/", kindText}, get[3]}},
		"user":                {`192.0.2.1 - alice [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 -`, fields{get[0], {"user", "alice", kindText}, get[1], get[2], get[3]}},
		"userOfTwoWords":      {`192.0.2.1 - alice b [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 -`, fields{get[0], {"user", "alice b", kindText}, get[1], get[2], get[3]}},
		"userWithATime": {`192.0.2.1 - a [b [01/Jan/2026:00:00:00 +0000] \x22 [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 -`,
			fields{get[0], {"user", `a [b [01/Jan/2026:00:00:00 +0000] \x22`, kindText}, get[1], get[2], get[3]}},
		"noHost":    {`-` + stamp + `"GET /a HTTP/1.1" 200 -`, get[1:]},
		"noRequest": {`192.0.2.1` + stamp + `"-" 408 -`, fields{get[0], {"status", "408", kindText}}},
		"handshake": {`192.0.2.1` + stamp + `"\x16\x03\x01 \x00" 400 -`, fields{get[0], {"status", "400", kindText}}},
		"escapes":   {`192.0.2.1` + stamp + `"GET /a\"b\\c\x22\xzz HTTP/1.1" 200 - "\t" "\"Agent\" 1"`, fields{get[0], get[1], {"path", `/a"b\c"\xzz`, kindText}, get[3], {"header:referer", "\t", kindText}, {"header:user-agent", `"Agent" 1`, kindText}}},
		"IPv6":      {`2001:db8::1` + stamp + `"GET /a HTTP/1.1" 200 -`, fields{{"ip", "2001:db8::1", kindText}, get[1], get[2], get[3]}},
		"hostName":  {`crawl-1.example` + stamp + `"GET /a HTTP/1.1" 200 -`, fields{{"ip", "crawl-1.example", kindText}, get[1], get[2], get[3]}},
	} {
		t.Run(name, func(t *testing.T) {
			got, at, err := readAccessLog(test.line, nil)
			if err != nil || at != 1431857103_000000 || !slices.Equal(got, test.want) {
				t.Errorf("got %v at %d and %v, want %v", got, at, err, test.want)
			}
		})
	}
}

func TestReadAccessLogSaysWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ line, want string }{
		"prose":           {"nothing of a log", "is not an access log line"},
		"cutInTheTime":    {"192.0.2.1 - - [17/May/2015:10", "ends before its request"},
		"cutInTheRequest": {"192.0.2.1" + stamp + `"GET /a`, "ends within its request"},
		"cutAtTheEscape":  {"192.0.2.1" + stamp + `"GET /a\"`, "ends within its request"},
		"cutInTheStatus":  {"192.0.2.1" + stamp + `"GET /a HTTP/1.1" 20`, `has the status "20"`},
		"noStatus":        {"192.0.2.1" + stamp + `"GET /a HTTP/1.1"`, `has the status ""`},
		"wrongTime":       {`192.0.2.1 - - [2015-05-17 10:05:03] "GET /a HTTP/1.1" 200 -`, `has the time "2015-05-17 10:05:03"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _, err := readAccessLog(test.line, nil); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v and %v, want %s…", got, err, test.want)
			}
		})
	}
}

func TestReadLogTime(t *testing.T) {
	for _, text := range []string{
		"17/May/2015:10:05:03 +0000", "29/Feb/2016:23:59:59 -0730", "01/Jan/1970:00:00:00 +0000", "31/Dec/2254:23:59:59 +1400", "28/Feb/2015:00:00:00 +0530",
	} {
		want, err := time.Parse("02/Jan/2006:15:04:05 -0700", text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readLogTime(text); err != nil || got != want.UnixMicro() {
			t.Errorf("%s: got %d and %v, want %d", text, got, err, want.UnixMicro())
		}
	}
	leap, err := readLogTime("30/Jun/2015:23:59:60 +0000")
	if next, _ := readLogTime("01/Jul/2015:00:00:00 +0000"); err != nil || leap != next {
		t.Errorf("a leap second is %d and %v, want the second after it, %d", leap, err, next)
	}
	for _, text := range []string{
		"", "17/May/2015:10:05:03", "17/May/2015 10:05:03 +0000", "29/Feb/2015:10:05:03 +0000", "31/Apr/2015:10:05:03 +0000", "00/May/2015:10:05:03 +0000",
		"17/may/2015:10:05:03 +0000", "17/anF/2015:10:05:03 +0000", "17/May/2015:24:05:03 +0000", "17/May/2015:10:60:03 +0000", "17/May/2015:10:05:61 +0000",
		"17/May/2015:10:05:03 Z0000", "1x/May/2015:10:05:03 +0000", "17/May/1969:10:05:03 +0000", "17/May/2256:10:05:03 +0000", "01/Jan/1970:00:00:00 +0001",
	} {
		if got, err := readLogTime(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestAddressesCountAsRulesCountThem(t *testing.T) {
	for given, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:DB8:0:7::1": "2001:db8:0:7::/64", "fe80::1%eth0": "fe80::/64",
		"crawl.example": "crawl.example", "host:80": "host:80",
	} {
		if got := identity("ip", given); got != want {
			t.Errorf("%s counts as %s, want %s", given, got, want)
		}
	}
	if got := identity("key", "2001:db8::1"); got != "2001:db8::1" {
		t.Errorf("a key counts as %s", got)
	}
}

func TestValuesCountAsRulesCountThem(t *testing.T) {
	for _, c := range []struct{ by, given, want string }{
		{"path", "/v1//%6Frders/", "/v1/orders"}, {"host", "API.Example.com:443", "api.example.com"},
		{"method", "get", "GET"}, {"user", "/v1//Get:1", "/v1//Get:1"}, {"path", "", ""}, {"host", "", ""},
	} {
		set := ruleSet(t, "rules: [{id: r, by: ["+c.by+"], missing: skip, limit: 1/m}]")
		lines, _ := replayed(t, Options{Rules: set}, inputsOf(`{"t_us":1,"`+c.by+`":"`+c.given+`"}`)...)
		if got, rules := identity(c.by, c.given), readDecided(t, lines)[0].Key; got != c.want || rules != c.want {
			t.Errorf("%s %q counts as %q, and as %q by rules; want %q", c.by, c.given, got, rules, c.want)
		}
	}
}

func FuzzCombined(f *testing.F) {
	f.Add(`192.0.2.1` + stamp + `"GET /a?b HTTP/1.1" 200 512 "http://e.example/" "Agent \"1\"" x`)
	f.Add(`::1 - a b [29/Feb/2016:23:59:60 -0730] "\x16\x03\" 400 -`)
	f.Add(`h` + stamp + `"GET http://x HTTP/1.0" 200 - "cut`)
	f.Add(`-` + stamp + `"" 000`)
	f.Fuzz(func(t *testing.T, line string) {
		var e event
		all, err := readLine(Format{kind: combined}, line, &e)
		if err != nil {
			return
		}
		if e.t < 0 || e.t > maxTime || e.cost != 1 {
			t.Fatalf("%q: read as %+v", line, e)
		}
		ip, ok := all.Attribute("ip")
		if ok == strings.HasPrefix(line, "- ") || strings.Contains(ip, " ") { // a hyphen means no value
			t.Fatalf("%q: ip is %q", line, ip)
		}
		for _, f := range all {
			if f.value == "" || f.kind != kindText {
				t.Fatalf("%q: has the field %+v", line, f)
			}
		}
		if bare, _, err := readAccessLog(line+" trailing", nil); err != nil || len(bare) < len(all) {
			t.Fatalf("%q: one more field changes %v to %v, %v", line, all, bare, err)
		}
	})
}
