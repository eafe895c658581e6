package rule

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLintWarnsOfRulesWithoutEffect(t *testing.T) {
	for text, want := range map[string]string{
		"rules: [{id: a, limit: 1/s, match: {path: /a, path_prefix: /b}}]":                            "rule a matches nothing: its path does not begin with its path_prefix",
		"rules: [{id: a, limit: 1/s, match: {path: /a, endpoint_regex: '^/b'}}]":                      "rule a matches nothing: its endpoint_regex does not match its path",
		"rules: [{id: a, limit: 1/s, match: {endpoint_regex: '^v1/'}}]":                               "rule a matches nothing: paths begin with /",
		"rules: [{id: a, limit: 1/s, match: {path_prefix: /v1/, endpoint_regex: '^/v2/'}}]":           "begin differently",
		"rules: [{id: a, limit: 1/s, match: {path_prefix: /v1/, endpoint_regex: '^/v1$'}}]":           "",
		"rules: [{id: a, limit: 1/s, match: {path_prefix: /v1/, endpoint_regex: '^/v'}}]":             "",
		"rules: [{id: a, limit: 1/s, match: {api_key_pattern: 'sk_*'}, override: {pk_1: 2/s}}]":       "rule a has an override for a key that it does not match",
		"rules: [{id: a, limit: 1/s, match: {api_key_pattern: 'sk_*'}, override: {'*_1': 2/s}}]":      "",
		"rules: [{id: a, limits: [10/s, {name: m, limit: 1000, window: 60}]}]":                        "limit m of rule a never denies: token_bucket:1s always does before",
		"rules: [{id: a, limits: [10/s, {name: m, limit: 500, window: 60}]}]":                         "",
		"rules: [{id: a, combine: any, limits: [10/s, {name: m, limit: 1000, window: 60}]}]":          "",
		"rules: [{id: a, limits: [10/s, {name: twin, limit: 10, window: 1}]}]":                        "limit twin of rule a never denies",
		"rules: [{id: a, limit: 1/s, by: [ip]}, {id: b, limit: 5/s, by: [ip]}]":                       "rule b never denies: rule a matches the same requests",
		"rules: [{id: a, limit: 5/s, by: [ip]}, {id: b, limit: 1/s, by: [ip]}]":                       "",
		"rules: [{id: a, limit: 1/s, by: [ip]}, {id: b, limit: 5/s}]":                                 "",
		"rules: [{id: a, limit: 1/s, mode: shadow}, {id: b, limit: 5/s}]":                             "",
		"rules: [{id: a, deny_all: true, match: {path: /a}}, {id: b, limit: 1/s, match: {path: /a}}]": "rule b counts nothing: rule a denies everything that it matches",
		"rules: [{id: a, limit: 1/s, match: {endpoint_regex: '^/v1/orders/$'}}]":                      "rule a matches nothing: paths are matched without a / at their end",
		"rules: [{id: a, limit: 1/s, match: {endpoint_regex: '^/v1/|/$'}}]":                           "",
		"rules: [{id: a, limit: 1/s, match: {endpoint_regex: '^/$'}}]":                                "",
		"rules: [{id: a, deny_all: true, match: {path_prefix: /}}]":                                   "rule a denies every request",
		"rules: [{id: a, deny_all: true}]":                                                            "rule a denies every request",
		"deny: ['sk_old_*']\nrules: [{id: a, limit: 1/s, match: {api_key_pattern: 'sk_old_1*'}}]":     "every key that it matches is on the deny list",
		"deny: ['sk_old_1']\nrules: [{id: a, limit: 1/s, match: {api_key_pattern: 'sk_old_*'}}]":      "",
		"tiers: {a: {api_key_pattern: 'k*', limit: 1/s}, b: {api_key_pattern: 'k*', limit: 2/s}}":     "tier b selects no key: tier a has the same pattern",
	} {
		s, err := Parse(File{"f.yaml", []byte(text)})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Warnings().Error(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: warnings %q, want %q", text, got, want)
		}
	}
}

func TestLintWarnsOfLoginsThatFailOpen(t *testing.T) {
	for match, want := range map[string]string{
		"id: a, match: {path: /login}":                                          `rule a fails open while the store is down: every request is allowed, although "login" in its path looks like a login (write on_store_failure: closed)`,
		"id: a, match: {path: /v1/Sign-In}":                                     `"signin" in its path looks like a login`,
		"id: a, match: {path_prefix: /v1/payments/}":                            `"payments" in its path_prefix looks like a payment`,
		"id: a, match: {path: /users/password_reset}":                           `"password" in its path looks like a password`,
		"id: a, match: {endpoint_regex: '^/v[0-9]+/(oauth2|x)/.*$'}":            `"oauth2" in its endpoint_regex looks like a login`,
		"id: a, match: {path: /resetPassword}":                                  `"reset" in its path looks like a password`,
		"id: a, match: {path: /user/SignIn}":                                    `"signin" in its path looks like a login`,
		"id: a, match: {path: /MFACodes}":                                       `"mfa" in its path looks like a verification`,
		"id: a, match: {path: /OAuth2}":                                         `"oauth2" in its path looks like a login`,
		"id: a, match: {path: /v1/2FA}":                                         `"2fa" in its path looks like a verification`,
		"id: a, match: {endpoint_regex: '^/v1/\\blogin$'}":                      `"login" in its endpoint_regex looks like a login`,
		"id: a, match: {endpoint_regex: '^/\\w+/o\\dauth\\x41$'}":               `"auth" in its endpoint_regex looks like a login`,
		"id: userLogin, match: {path: /a}":                                      `"login" in its id looks like a login`,
		"id: mfa.codes, match: {path: /a}":                                      `"mfa" in its id looks like a verification`,
		"id: login, match: {path: /login}, mode: shadow":                        `"login" in its path`,
		"id: login, match: {path: /login}, on_store_failure: open":              `"login" in its path`,
		"id: login, match: {path: /login}, mode: 'off'":                         "",
		"id: login, match: {path: /login}, on_store_failure: closed":            "",
		"id: login, match: {path: /login}, on_store_failure: local":             "",
		"id: login, match: {path: /login}, on_store_failure: last_known":        "",
		"id: a, match: {path: /authors}":                                        "",
		"id: a, match: {path: /blogin/resettle/payload}":                        "",
		"id: a, match: {endpoint_regex: '^/authors?/[a-z]+/tokenizers/paying'}": "",
		"id: a, match: {path: /Authors/reAuthor/PAYLOAD}":                       "",
		"id: logins":                          "",
		"id: logins, match: {path_prefix: /}": "",
	} {
		s := mustParse(t, "rules: [{limit: 1/s, "+match+"}]")
		got := s.Warnings()
		if len(got) > 1 || !strings.Contains(got.Error(), want) || want == "" && len(got) > 0 {
			t.Errorf("%s: warnings %q, want %q", match, got.Error(), want)
		}
	}
}

// A short expression can be large.
func TestExpressionsAreBounded(t *testing.T) {
	for regex, want := range map[string]string{
		strings.Repeat("a{1000}", 500):                        "needs more than 5000 steps for each byte",
		"(a{30}){30}(b{30}){30}(c{90}){90}":                   "endpoint_regex: ",
		strings.Repeat("(", 2000) + strings.Repeat(")", 2000): "endpoint_regex: ",
		"^/v1/(orders|carts|users)/[0-9a-f]{8,64}$":           "",
	} {
		_, err := Parse(File{"f.yaml", []byte("rules: [{id: a, limit: 1/s, match: {endpoint_regex: '" + regex + "'}}]")})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", regex, err)
		}
	}
}

func TestManyLargeExpressionsAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "- {id: r%d, limit: 1/s, match: {endpoint_regex: '^/%d/[a-z]{600}[0-9]{600}x{600}'}}\n", i, i)
	}
	started := time.Now()
	bytes, err := costOf(text.String())
	if err == nil || !strings.Contains(err.Error(), "all expressions together") {
		t.Errorf("%.200v", err)
	}
	if bytes > 1<<30 {
		t.Errorf("it takes %d MB and %v", bytes>>20, time.Since(started))
	}
}

func TestStrictSharedKeys(t *testing.T) {
	s := mustParse(t, `rules:
  - {id: shared, match: {path: /a}, by: [path], limit: 1/s}
  - {id: leased, match: {path: /b}, by: [path], limit: 1/s, consistency: leased}
  - {id: callers, match: {path: /c}, by: [path, ip], limit: 1/s}
  - {id: "off", match: {path: /d}, by: [path], limit: 1/s, mode: "off"}
  - {id: observed, match: {path: /e}, by: [host], limit: 1/s, mode: shadow}
  - {id: elsewhere, match: {path: /f}, by: [path], limit: 1/s, store: critical}
`)
	if got := s.StrictSharedKeys("critical"); len(got) != 1 || got[0].Line != 7 || len(s.StrictSharedKeys("absent")) != 0 {
		t.Error(got)
	}
	got := s.StrictSharedKeys("")
	if len(got) != 2 || got[0].Line != 2 || !strings.Contains(got[0].What, "rule shared is strict") || got[1].Line != 6 || len(s.Warnings()) != 0 {
		t.Error(got, s.Warnings())
	}
}
