package replay

import (
	"maps"
	"strings"
	"testing"
)

const nginxMain = `log_format main '$remote_addr - $remote_user [$time_local] "$request" '
                      '$status $body_bytes_sent "$http_referer" '
                      '"$http_user_agent" "$http_x_forwarded_for" $request_time';`

func TestLogFormats(t *testing.T) {
	request := map[string]string{"ip": "192.0.2.7", "method": "GET", "path": "/a", "status": "200"}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(request)
		maps.Copy(all, more)
		return all
	}
	for name, c := range map[string]struct {
		format, line string
		want         map[string]string
		at           int64
	}{
		"plain": {`$remote_addr [$time_local] "$request" $status`, `192.0.2.7 [03/Mar/2026:08:12:05 +0100] "GET /a?b HTTP/1.1" 200`, request, second},
		"directive": {nginxMain, `192.0.2.7 - carol [03/Mar/2026:07:12:05 +0000] "GET /a HTTP/1.1" 200 512 "-" "Agent \x22 1" "198.51.100.1, 10.0.0.1" 0.003`,
			with(map[string]string{"user": "carol", "bytes": "512", "header:user-agent": `Agent " 1`, "header:x-forwarded-for": "198.51.100.1, 10.0.0.1", "request_time": "0.003"}), second},
		"json": {`escape=json {"ip":"$remote_addr","time":"$time_iso8601","m":"$request_method","u":"$request_uri","status":$status,"agent":"$http_user_agent","tenant":"${http_x_tenant}","ref":"$http_referer"}`,
			`{"ip":"192.0.2.7","time":"2026-03-03T08:12:05+01:00","m":"GET","u":"/a?b=\"c","status":200,"agent":"a \"b\" \\","tenant":"t\u0001é","ref":""}`,
			with(map[string]string{"header:user-agent": `a "b" \`, "header:x-tenant": "t\x01é"}), second},
		"jsonDirective": {`log_format j escape=json '{"t":"$msec","ip":"$remote_addr"}';`, `{"t":"1772521925.250","ip":"192.0.2.7"}`, map[string]string{"ip": "192.0.2.7"}, second + 250_000},
		"msecGoesFirst": {`$msec $time_iso8601 $remote_addr`, `1772521925.250 2026-03-03T07:12:06+00:00 192.0.2.7`, map[string]string{"ip": "192.0.2.7"}, second + 250_000},
		"msecGoesLast":  {`$time_iso8601 $msec $remote_addr`, `2026-03-03T07:12:06+00:00 1772521925.250 192.0.2.7`, map[string]string{"ip": "192.0.2.7"}, second + 250_000},
		"none":          {`escape=none $msec|$http_x|`, `1772521925|a\|`, map[string]string{"header:x": `a\`}, second},
		"own":           {`$msec $request_id $upstream_addr;`, `1772521925.000 0af1 10.0.0.1:80, 10.0.0.2:80;`, map[string]string{"request_id": "0af1", "upstream_addr": "10.0.0.1:80, 10.0.0.2:80"}, second},
		"hostileUser": {`$remote_user [$time_local] "$request"`, `a [b [03/Mar/2026:07:12:06 +0000] \x22 [03/Mar/2026:07:12:05 +0000] "GET /a HTTP/1.1"`,
			map[string]string{"user": `a [b [03/Mar/2026:07:12:06 +0000] "`, "method": "GET", "path": "/a"}, second},
		"unquotedTime": {`$remote_addr $time_local $status`, `192.0.2.7 03/Mar/2026:07:12:05 +0000 200`, map[string]string{"ip": "192.0.2.7", "status": "200"}, second},
		"timeAtTheEnd": {`$remote_user $msec`, `a 1 1772521925.000`, map[string]string{"user": "a 1"}, second},
		"hostAndPort":  {`$host:$server_port $msec`, `shop.example:443 1772521925.000`, map[string]string{"host": "shop.example", "server_port": "443"}, second},
	} {
		t.Run(name, func(t *testing.T) {
			format, err := ParseLogFormat(c.format)
			if err != nil {
				t.Fatal(err)
			}
			if got, at := attributesOf(t, format, c.line); at != c.at || !maps.Equal(got, c.want) {
				t.Errorf("%v at %d, want %v at %d", got, at, c.want, c.at)
			}
		})
	}
}

func TestLinesThatDoNotMatchTheLogFormat(t *testing.T) {
	format, err := ParseLogFormat(`[$time_local] "$request" $status "$http_user_agent" end`)
	if err != nil {
		t.Fatal(err)
	}
	good := `[03/Mar/2026:08:12:05 +0100] "GET /a HTTP/1.1" 200 "a" end`
	for line, want := range map[string]string{
		"x" + good:               "before $time_local",
		good[:20]:                "after $time_local",
		good[:40]:                "after $request",
		good[:len(good)-6]:       "after $http_user_agent",
		good + "x":               "at its end",
		"[yesterday" + good[27:]: `has the time "yesterday"`,
	} {
		var e event
		if _, err := readLine(format, line, &e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestWrongLogFormats(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "has no time",
		`$remote_addr "$request"`:           "has no time",
		"$msec$status":                      "$msec and $status have no text between them",
		"$msec $":                           "has no name",
		"${msec":                            "lacks its closing brace",
		"escape=xml $msec":                  "escape=xml is not known",
		"log_format main $msec;":            "is not in quotes",
		"log_format main '$msec;":           "a quote is not closed",
		"log_format main escape=json $msec": "is not in quotes",
	} {
		if _, err := ParseLogFormat(text); err == nil || !strings.HasPrefix(err.Error(), "log-format: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
