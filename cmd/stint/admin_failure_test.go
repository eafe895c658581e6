package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestAdminCommandsDistinguishFailureFromWrongUsage(t *testing.T) {
	other := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	defer other.Close()
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), adminRules)
	p := startServer(t, nil)
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"nobody there":      {[]string{"rules", "history", "--server", "http://127.0.0.1:1"}, exitFailed, "connection refused (is stint serve running? Start it, or give --server"},
		"not a stint":       {[]string{"rules", "history", "--server", other.URL}, exitFailed, "redirects are not followed"},
		"something else":    {[]string{"rules", "apply", "--yes", rules, "--server", answering(t, 200, map[string]any{})}, exitFailed, "give --server the address of --admin"},
		"no URL":            {[]string{"nodes", "--server", "localhost"}, exitUsage, "server: "},
		"a store":           {[]string{"nodes", "--server", "redis://u:hunter2@h"}, exitUsage, "--source"},
		"a query in it":     {[]string{"nodes", "--server", "http://h?dry_run=true"}, exitUsage, "contains a query"},
		"a password in it":  {[]string{"nodes", "--server", "http://u:hunter2@h"}, exitUsage, "STINT_TOKEN"},
		"no file":           {[]string{"rules", "apply"}, exitUsage, "got 0 arguments (give a file, such as rules.yaml)"},
		"two files":         {[]string{"rules", "apply", rules, rules}, exitUsage, "got 2 arguments"},
		"no version":        {[]string{"rules", "rollback", "yesterday"}, exitUsage, "is not a version"},
		"three versions":    {[]string{"rules", "diff", "1", "2", "3"}, exitUsage, "one or two versions"},
		"no number":         {[]string{"rules", "history", "-n", "0"}, exitUsage, "out of range"},
		"no key":            {[]string{"key", "peek"}, exitUsage, "key: is missing"},
		"an empty key":      {[]string{"key", "peek", ""}, exitUsage, "key: is empty"},
		"a garbled key":     {[]string{"key", "ban", "sk_\xff"}, exitUsage, "key: is not UTF-8"},
		"a garbled value":   {[]string{"key", "reset", "-a", "x=\xff"}, exitUsage, "not UTF-8"},
		"a garbled reason":  {[]string{"key", "ban", "--reason", "\xff", "k"}, exitUsage, "not UTF-8"},
		"key and attribute": {[]string{"key", "peek", "k", "-a", "ip=::1"}, exitUsage, "give one of them"},
		"an odd attribute":  {[]string{"key", "peek", "-a", "ip"}, exitUsage, "ip=203.0.113.9"},
		"a wrong limit":     {[]string{"key", "peek", "--limit", "5/y", "k"}, exitUsage, "limit: "},
		"no units":          {[]string{"key", "grant", "k", "many"}, exitUsage, "is not a number of units"},
		"two ends":          {[]string{"key", "ban", "--for", "1h", "--until", "2030-01-01T00:00:00Z", "k"}, exitUsage, "--for"},
		"a broken comment":  {[]string{"rules", "apply", "--comment", "a\nb", rules}, exitUsage, "comment: "},
		"both places":       {[]string{"rules", "history", "--server", "http://h", "--source", "redis://h"}, exitUsage, "give one of them"},
		"a file as source":  {[]string{"rules", "history", "--source", rules}, exitUsage, "is a file or folder"},
		"source not there":  {[]string{"rules", "history", "--source", "redis://127.0.0.1:1"}, exitFailed, "connection refused (check that the database runs, and the address of --source)"},
		"a token aside":     {[]string{"rules", "history", "--token-file", rules, "--source", "redis://127.0.0.1:1"}, exitUsage, "--token-file are both given"},
		"an empty server":   {[]string{"rules", "history", "--server", ""}, exitUsage, "server: is given, and empty"},
		"an empty source":   {[]string{"rules", "apply", "--source=", rules}, exitUsage, "source: is given, and empty"},
		"an empty rule":     {[]string{"key", "reset", "--rule", "", "k"}, exitUsage, "rule: is given, and empty"},
		"a prefix alone":    {[]string{"rules", "history", "--key-prefix", "x"}, exitUsage, "without --source"},
		"a negative base":   {[]string{"rules", "apply", "--base", "-2", rules}, exitUsage, "is not a version"},
		"nothing to do":     {[]string{"key"}, exitUsage, "stint key: a command is missing"},
		"nothing of rules":  {[]string{"rules"}, exitUsage, "\n  validate    Check rule files"},
		"nobody to check":   {[]string{"check", "a=b", "--server", "http://127.0.0.1:1"}, exitFailed, "connection refused (is stint serve running? Start it, or give --server the URL of its --http listener)"},
		"not for checks":    {[]string{"check", "a=b", "--server", "http://" + p.addr("admin")}, exitFailed, "checks and takes are on the --http listener"},
		"not for nodes":     {[]string{"nodes", "--server", "http://" + p.addr("http")}, exitFailed, "rules, keys, nodes and metrics are on the --admin listener"},
		"a wrong word":      {[]string{"key", "peak"}, exitUsage, "did you mean peek?"},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, nil, c.args...)
			if got.status != c.status || !strings.Contains(got.errors, c.want) || strings.Contains(got.errors, "hunter2") || got.out != "" {
				t.Errorf("status %d, %q%q, want %d with %q", got.status, got.out, got.errors, c.status, c.want)
			}
		})
	}
}

func TestWithoutATagNothingIsPublished(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Error("a change was sent without a tag")
		}
		_, _ = w.Write([]byte(`{"files":[],"changed":true}`))
	}))
	defer server.Close()
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), adminRules)
	if got := command(t, nil, "rules", "apply", "--yes", "--server", server.URL, rules); got.status != exitFailed || !strings.Contains(got.errors, "no ETag") {
		t.Errorf("status %d, %q", got.status, got.errors)
	}
}

func TestALostConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.URL.RawQuery == "" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("ETag", `"a"`)
		_, _ = w.Write([]byte(`{"files":[],"changed":true}`))
	}))
	defer server.Close()
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), adminRules)
	for _, args := range [][]string{{"rules", "apply", rules}, {"rules", "rollback", "1"}, {"key", "ban", "k"}, {"key", "grant", "k", "1"}, {"key", "reset", "k"}} {
		if got := command(t, nil, append(args, "--server", server.URL)...); got.status != exitFailed || !strings.Contains(got.errors, "may have taken effect or not") {
			t.Errorf("%v: status %d, %q", args, got.status, got.errors)
		}
	}
	for _, args := range [][]string{{"rules", "diff", rules}, {"key", "peek", "k"}} {
		if got := command(t, nil, append(args, "--server", server.URL)...); got.status != exitFailed || strings.Contains(got.errors, "may have taken effect or not") {
			t.Errorf("%v: status %d, %q", args, got.status, got.errors)
		}
	}
}
