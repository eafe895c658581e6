package replay

import (
	"maps"
	"os"
	"strings"
	"testing"
)

// attributesOf returns the attributes of a line and its time.
func attributesOf(t *testing.T, f Format, line string) (attributes map[string]string, at int64) {
	t.Helper()
	var e event
	all, err := readLine(f, line, &e)
	if err != nil {
		t.Fatalf("%v\n%s", err, line)
	}
	attributes = map[string]string{}
	for _, f := range all {
		if value, ok := all.Attribute(f.name); ok {
			attributes[f.name] = value
		}
	}
	return attributes, e.t
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

type wantedLine struct {
	at   int64
	want map[string]string
}

const second = 1_772_521_925_000_000 // 2026-03-03T07:12:05Z

// The samples of each format are read alike whether the format is named or
// detected.
func TestSamplesOfEveryFormat(t *testing.T) {
	for file, c := range map[string]struct {
		format string
		lines  []wantedLine
	}{
		"alb.log": {"alb", []wantedLine{
			{second + 74_000, map[string]string{"ip": "192.0.2.7", "method": "GET", "host": "shop.example:443", "path": "/v1/orders", "status": "200", "bytes": "5120",
				"header:user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "elb": "app/shop/50dc6c495c0c9188",
				"target_group": "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/shop/73e2d6bc24d8a067", "trace_id": "Root=1-67c55515-0f3b0c0d1e2f3a4b5c6d7e8f"}},
			{second + 990_000, map[string]string{"ip": "2001:db8:7::1", "method": "POST", "host": "shop.example:443", "path": "/v1/login", "status": "403", "bytes": "180",
				"header:user-agent": `curl/8.9.1 "quoted"`, "elb": "app/shop/50dc6c495c0c9188", "trace_id": "Root=1-67c55516-1f3b0c0d1e2f3a4b5c6d7e8f"}},
			{second + 2_400_000, map[string]string{"ip": "198.51.100.23", "status": "400", "bytes": "272", "elb": "app/shop/50dc6c495c0c9188"}},
			{second + 3_250_000, map[string]string{"ip": "192.0.2.7", "method": "GET", "host": "shop.example:80", "path": "/", "status": "200", "bytes": "366",
				"header:user-agent": "curl/8.9.1", "elb": "app/old/40dc6c495c0c9188"}},
		}},
		"cloudflare.ndjson": {"cloudflare", []wantedLine{
			{second, map[string]string{"ip": "192.0.2.7", "method": "GET", "host": "shop.example", "path": "/v1/orders", "status": "200", "bytes": "5120",
				"header:user-agent": "Mozilla/5.0", "header:referer": "https://shop.example/", "header:x-tenant": "acme", "header:authorization": "Bearer x",
				"EdgeStartTimestamp": "2026-03-03T07:12:05Z", "EdgeEndTimestamp": "2026-03-03T07:12:06Z", "RayID": "8d1f0a2b3c4d5e6f", "ClientCountry": "de", "BotScore": "92"}},
			{second + 1_123_456, map[string]string{"ip": "2001:db8:7::1", "method": "POST", "host": "shop.example", "path": "/v1/login", "status": "429", "bytes": "90",
				"EdgeStartTimestamp": "1772521926123456789", "RayID": "8d1f0a2b3c4d5e70"}},
			{second + 2_000_000, map[string]string{"ip": "192.0.2.7", "method": "GET", "path": "/", "status": "200", "EdgeStartTimestamp": "1772521927", "RayID": "8d1f0a2b3c4d5e71"}},
		}},
		"envoy.json": {"envoy", []wantedLine{
			{second + 123_000, map[string]string{"ip": "192.0.2.7", "method": "GET", "host": "shop.example", "path": "/v1/orders", "status": "200", "bytes": "5120",
				"header:user-agent": "Mozilla/5.0", "header:x-forwarded-for": "192.0.2.7", "header:x-request-id": "5b6d7e8f-0000-4000-8000-0123456789ab", "route_name": "orders",
				"bytes_received": "0", "downstream_local_address": "10.0.0.5:8443", "duration": "48", "protocol": "HTTP/2", "requested_server_name": "shop.example",
				"response_code_details": "via_upstream", "start_time": "2026-03-03T07:12:05.123Z", "upstream_cluster": "outbound|8080||orders.shop.svc.cluster.local",
				"upstream_host": "10.0.1.20:8080", "upstream_local_address": "10.0.0.5:39020", "upstream_service_time": "47"}},
			{second + 1_500_000, map[string]string{"ip": "2001:db8:7::1", "method": "POST", "host": "shop.example", "path": "/v1/login", "status": "429", "bytes": "90",
				"header:user-agent": "curl/8.9.1", "header:x-forwarded-for": "2001:db8:7::1", "header:x-request-id": "6b6d7e8f-0000-4000-8000-0123456789ab", "route_name": "login",
				"bytes_received": "12", "duration": "3", "protocol": "HTTP/1.1", "response_flags": "RL", "start_time": "2026-03-03T07:12:06.500Z"}},
		}},
		"traefik.json": {"traefik", []wantedLine{
			{second + 123_456, map[string]string{"ip": "192.0.2.7", "method": "GET", "host": "shop.example", "path": "/v1/orders", "status": "200", "bytes": "5120",
				"header:user-agent": "Mozilla/5.0", "header:x-tenant": "acme"}},
			{second + 1_500_000, map[string]string{"ip": "198.51.100.23", "user": "carol", "method": "GET", "host": "shop.example", "path": "/admin", "status": "404", "bytes": "19"}},
		}},
	} {
		t.Run(file, func(t *testing.T) {
			named, err := ParseFormat(c.format)
			if err != nil {
				t.Fatal(err)
			}
			lines := linesOf(t, file)
			if len(lines) != len(c.lines) {
				t.Fatalf("%d lines, want %d", len(lines), len(c.lines))
			}
			for i, line := range lines {
				want := c.lines[i]
				got, at := attributesOf(t, Format{}, line)
				if c.format == "traefik" { // it has many more
					maps.DeleteFunc(got, func(name, _ string) bool { _, wanted := want.want[name]; return !wanted && name != "user" })
				}
				if at != want.at || !maps.Equal(got, want.want) {
					t.Errorf("line %d at %d:\n%v, want at %d\n%v", i+1, at, got, want.at, want.want)
				}
				full, at := attributesOf(t, Format{}, line)
				if other, otherAt := attributesOf(t, named, line); at != otherAt || !maps.Equal(full, other) {
					t.Errorf("line %d: as %s it is %v at %d", i+1, c.format, other, otherAt)
				}
			}
		})
	}
}

// An event of one's own with a time is never taken for a line of another
// program.
func TestOwnEventsAreNoAccessLog(t *testing.T) {
	line := `{"t_us":5,"start_time":"x","response_code":200,"method":"GET","EdgeStartTimestamp":1,"StartUTC":"x","RequestMethod":"GET"}`
	got, at := attributesOf(t, Format{}, line)
	if at != 5 || got["response_code"] != "200" || got["status"] != "" {
		t.Errorf("%v at %d", got, at)
	}
}

func TestBrokenLinesOfEveryFormat(t *testing.T) {
	for name, c := range map[string]struct{ format, line, want string }{
		"albCut":          {"auto", linesOf(t, "alb.log")[0][:150], "ends before its request"},
		"albCutInQuotes":  {"auto", linesOf(t, "alb.log")[0][:170], "ends before its request"},
		"albProse":        {"alb", "nothing", "ends before its request"},
		"albTime":         {"auto", strings.Replace(linesOf(t, "alb.log")[3], "07:12:08.250000Z", "7:12:08", 1), "has the time"},
		"cloudflareTime":  {"auto", `{"EdgeStartTimestamp":"yesterday"}`, `EdgeStartTimestamp: "yesterday" is not a time`},
		"cloudflareLate":  {"auto", `{"EdgeStartTimestamp":9223372036854775807}`, "EdgeStartTimestamp: lies outside"},
		"cloudflareWraps": {"auto", `{"EdgeStartTimestamp":-18446744073709}`, "EdgeStartTimestamp: lies outside"},
		"cloudflareZero":  {"auto", `{"EdgeStartTimestamp":-5}`, "EdgeStartTimestamp: lies outside"},
		"envoyNoTime":     {"envoy", `{"response_code":200}`, "has no start_time"},
		"envoyDecimals":   {"envoy", `{"response_code":200,"start_time":"1772521925."}`, "is not a time such as"},
		"envoyFraction":   {"envoy", `{"response_code":200,"start_time":"1772521925123.5"}`, "is not a time such as"},
		"envoyHuge":       {"envoy", `{"response_code":200,"start_time":"99999999999999999999"}`, "is not a time such as"},
		"envoySigned":     {"envoy", `{"response_code":200,"start_time":"1772521925.-5"}`, "is not a time such as"},
		"envoyNumber":     {"envoy", `{"response_code":200,"start_time":1.5}`, "start_time: 1.5 is not a whole number"},
		"traefikCut":      {"traefik", `{"StartUTC":"2026-03-03T07:12:05Z","Reque`, "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			format, err := ParseFormat(c.format)
			if err != nil {
				t.Fatal(err)
			}
			var e event
			if all, err := readLine(format, c.line, &e); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want %s", all, err, c.want)
			}
		})
	}
}

// Envoy's START_TIME may be a text of seconds, with decimals or without, or of milliseconds.
func TestTextsOfSecondsAreTimes(t *testing.T) {
	for text, want := range map[string]int64{
		"1772521925": second, "1772521925.1": second + 100_000, "1772521925.123": second + 123_000, "1772521925.123456789": second + 123_456, "1772521925123": second + 123_000,
	} {
		if _, at := attributesOf(t, Format{}, `{"response_code":200,"start_time":"`+text+`"}`); at != want {
			t.Errorf("%s: %d, want %d", text, at, want)
		}
	}
}

// A quote in the text of a client moves the fields after it. The line counts at
// the time of the answer.
func TestMovedFieldsOfALoadBalancer(t *testing.T) {
	line := strings.Replace(linesOf(t, "alb.log")[0], "Mozilla/5.0 (X11", `Mozilla/5.0" a b (X11`, 1)
	if got, at := attributesOf(t, Format{}, line); got["ip"] != "192.0.2.7" || at != second+123_456 {
		t.Errorf("%v at %d", got, at)
	}
}

func FuzzFormats(f *testing.F) {
	for _, file := range []string{"alb.log", "cloudflare.ndjson", "envoy.json", "traefik.json"} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f.Add(strings.TrimSuffix(line, "\n"), "$remote_addr [$time_local] \"$request\" $status")
		}
	}
	f.Add(`192.0.2.1`+stamp+`"GET /a?b HTTP/1.1" 200`, `$remote_addr - $remote_user [$time_local] "$request" $status`)
	f.Add(`{"a":"1431857103.5","b":"x\"y"}`, `escape=json {"a":"$msec","b":"$http_x"}`)
	f.Fuzz(func(t *testing.T, line, layout string) {
		formats := []Format{{}, {kind: albLog}, {kind: cloudflareLog}, {kind: envoyLog}, {kind: traefikLog}}
		if custom, err := ParseLogFormat(layout); err == nil {
			formats = append(formats, custom)
		}
		for _, format := range formats {
			var e event
			if _, err := readLine(format, line, &e); err == nil && (e.t < 0 || e.t > maxTime) {
				t.Fatalf("%+v: %q is an event at %d", format, line, e.t)
			}
		}
	})
}

// readLine reads one line of a format.
func readLine(f Format, line string, e *event) (fields, error) {
	lines := lineReader{format: f}
	return lines.read(line, nil, e)
}
