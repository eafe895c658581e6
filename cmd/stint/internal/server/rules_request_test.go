package server

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// cannotApply begins the warnings about attributes that no HTTP request has.
const cannotApply = "the gateway and forward auth cannot apply this as it is written: "

// A rule for callers of the check API is valid, but the gateway and forward auth count its
// requests by ip. The operator reads where it is: with a gateway when the rules are loaded,
// without one when forward auth decides the first request.
func TestRulesThatNoRequestCanMeetAreWarnedAbout(t *testing.T) {
	file := rulesFile(t, `tiers: {gold: {limit: 5/s}, free: {api_key_pattern: "f_*", limit: 1/s}}
rules:
  - {id: a, by: [user_id], limit: 5/s}
  - {id: b, by: ["jwt:sub", "header:x-tenant"], limit: 5/s}
`)
	const claim = `rules.yaml:4:18: "jwt:sub": the server verifies no tokens`
	want := []string{
		`rules.yaml:1:9: the gateway and forward auth cannot apply this as it is written: no HTTP request has the attribute tier (give the tier an api_key_pattern)`,
		`rules.yaml:3:18: the gateway and forward auth cannot apply this as it is written: "user_id" is no attribute of a request`,
	}
	check := func(s *running) {
		t.Helper()
		log := strings.ReplaceAll(s.logs.String(), `\`, "")
		for _, text := range want {
			if !strings.Contains(log, text) {
				t.Errorf("no %q in %s", text, log)
			}
		}
		if n := strings.Count(log, cannotApply); n != len(want) {
			t.Errorf("%d warnings, want %d", n, len(want))
		}
		if n := strings.Count(log, claim); n != 1 {
			t.Errorf("the claim is reported %d times, want once", n)
		}
	}
	s := run(t, Config{Rules: file})
	s.post("http", "/v1/check", `{"attributes":{"user_id":"u"}}`)
	if log := s.logs.String(); strings.Contains(log, cannotApply) {
		t.Errorf("callers of the check API have these attributes: %s", log)
	}
	s.get("http", "/v1/auth/")
	s.get("http", "/v1/auth/")
	check(s)
	check(run(t, Config{Rules: file, Gateway: "127.0.0.1:0", Upstreams: []*url.URL{{Scheme: "http", Host: "127.0.0.1:9"}}}))
}

func TestManyRulesThatNoRequestCanMeetMakeFewWarnings(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&text, "  - {id: r%d, by: [user_id], limit: 5/s}\n", i)
	}
	s := run(t, Config{Rules: rulesFile(t, text.String())})
	s.get("http", "/v1/auth/")
	if n := strings.Count(s.logs.String(), cannotApply); n != mostWarnings || !strings.Contains(s.logs.String(), "problems=100") {
		t.Errorf("%d warnings", n)
	}
}
