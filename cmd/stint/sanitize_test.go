package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// hostile is text that moves the cursor, sets the title of the window and
// reverses the direction of text.
const hostile = "\x1b]0;owned\x07\u009b31m\r\x7f\u202enimda\u2066"

func TestSanitizedTextIsHarmless(t *testing.T) {
	got := sanitize("a" + hostile + "\xff\nb\tc é 日本")
	if !strings.HasPrefix(got, "a") || !strings.HasSuffix(got, "\ufffd\nb\tc é 日本") || harmful(got) {
		t.Errorf("%q", got)
	}
	if got := sanitize("a\r\nb\rc\r\r\n"); got != "a\nb\ufffdc\ufffd\n" {
		t.Errorf("%q", got)
	}
	if got := cell("a\nb\t c"); got != "a b c" {
		t.Errorf("%q", got)
	}
}

func harmful(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || r == '\u202e' || r == '\u2066'
	})
}

// answering returns the URL of a server that answers every request alike.
func answering(t *testing.T, status int, answer any) string {
	t.Helper()
	body, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"a"`)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestUntrustedTextIsSanitized(t *testing.T) {
	type object = map[string]any
	refusal := answering(t, 400, object{"error": object{"code": "X", "message": hostile}})
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), adminRules)
	diff := object{"changed": true, "rules": object{"removed": []string{hostile + "\nnothing to change"}}, "text": hostile}
	for name, c := range map[string]struct {
		answer object
		args   []string
	}{
		"versions": {object{"versions": []object{{"author": hostile, "comment": hostile, "hash": hostile}}}, []string{"rules", "history"}},
		"nodes":    {object{"nodes": []object{{"id": hostile, "address": hostile}}}, []string{"nodes"}},
		"an emergency": {object{"on": true, "limit": hostile, "by": hostile, "author": hostile, "reason": hostile, "source_error": hostile, "replaced": object{"limit": hostile},
			"nodes": []object{{"id": hostile, "address": hostile}}}, []string{"emergency", "off"}},
		"a key":     {object{"limits": []object{{"rule": hostile, "name": hostile}}}, []string{"key", "peek", "k"}},
		"a change":  {object{"files": []string{}, "version": 1, "changed": true, "diff": diff}, []string{"rules", "apply", rules}},
		"an impact": {object{"rules": 1, "diff": diff, "impact": object{"allowed": 1, "denied": 1, "keys": []object{{"key": hostile}}}}, []string{"rules", "impact", rules}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, server := range []string{answering(t, 200, c.answer), refusal} {
				got := command(t, []string{"STINT_SERVER=" + server}, c.args...)
				if text := got.out + got.errors; !strings.Contains(text, "owned") || harmful(text) || strings.Contains(text, "\nnothing to change") {
					t.Errorf("%q", text)
				}
			}
		})
	}
	if got := command(t, nil, "check", "--server", refusal, "path=/"); !strings.Contains(got.errors, "owned") || harmful(got.errors) {
		t.Errorf("%q", got.errors)
	}
}
