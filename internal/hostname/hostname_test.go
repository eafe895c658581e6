package hostname

import "testing"

func TestSpellingsOfAHostHaveOneForm(t *testing.T) {
	for spelling, want := range map[string]string{
		"":                     "",
		"api.example.com":      "api.example.com",
		"API.Example.Com":      "api.example.com",
		"api.example.com:443":  "api.example.com",
		"api.example.com.":     "api.example.com",
		"api.example.com.:443": "api.example.com",
		"127.0.0.1:80":         "127.0.0.1",
		"[2001:db8::1]:80":     "[2001:db8::1]",
		"[2001:DB8::1]":        "[2001:db8::1]",
		"2001:db8::1":          "2001:db8::1",
		":80":                  "",
		"[::1]:80":             "[::1]",
		"a.example:80":         "a.example",
		"]:80":                 "]",
	} {
		if got := Normalize(spelling); got != want {
			t.Errorf("%q: %q, want %q", spelling, got, want)
		}
	}
}

func TestAPatternMatchesANameOrTheNamesBelowIt(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		want          bool
	}{
		{"api.example.com", "api.example.com", true},
		{"api.example.com", "example.com", false},
		{"*.example.com", "api.example.com", true},
		{"*.example.com", "a.b.example.com", true},
		{"*.example.com", "example.com", false},
		{"*.example.com", "badexample.com", false},
		{"*.example.com", "", false},
	} {
		if got := Match(c.pattern, c.host); got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.host, got, c.want)
		}
	}
}

func TestAPatternIsANameWithAtMostOneWildcard(t *testing.T) {
	for pattern, want := range map[string]bool{
		"api.example.com": true, "*.example.com": true, "[2001:db8::1]": true,
		"": false, "*": false, "*.": false, "a.*.com": false, "user@host": false, "a b": false, "http://a": false,
		"xn--bcher-kva.example": true, "bücher.example": false, "a\tb": false,
	} {
		if got := IsPattern(pattern); got != want {
			t.Errorf("%q: %v, want %v", pattern, got, want)
		}
	}
}
