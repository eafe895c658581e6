package main

import (
	"slices"
	"strings"
	"testing"
)

// completed returns what a shell offers for the last argument, without descriptions.
func completed(t *testing.T, env []string, args ...string) (words []string) {
	t.Helper()
	got := command(t, env, append([]string{"__complete"}, args...)...)
	if got.status != exitDone {
		t.Fatalf("%v: status %d: %s", args, got.status, got.errors)
	}
	for line := range strings.Lines(got.out) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		words = append(words, word)
	}
	return words
}

func TestShellsCompleteTheValuesOfFlags(t *testing.T) {
	const nothing, anyFile, folders, noFiles, extensions = ":4", ":0", ":16", ":4", ":8"
	for words, want := range map[string][]string{
		"serve --log-format":    {"text", "json", noFiles},
		"serve --gateway-adapt": {"gradient", "aimd", "off", noFiles},
		"serve --path-encoding": {"decode", "keep", "reject", noFiles},
		"serve --jwt-invalid":   {"missing", "reject", noFiles},
		"serve --rules":         {anyFile},
		"serve --state-dir":     {folders},
		"serve --http":          {nothing},
		"replay --format":       {"auto", "combined", "common", "jsonl", "alb", "cloudflare", "envoy", "traefik", noFiles},
		"replay":                {anyFile},
		"rules apply":           {"yaml", "yml", "json", extensions},
		"rules apply --comment": {nothing},
		"key ban --tls-ca":      {anyFile},
		"key peek":              {nothing},
		"emergency":             {"off", "on", "status", noFiles},
		"emergency on --by":     {"ip", "api_key", "host", "path", "method", noFiles},
		"emergency on --for":    {"5m", "10m", "1h", noFiles},
		"emergency off":         {nothing},
		"check":                 {"api_key=", "ip=", "method=", "path=", "host=", "tier=", ":6"},
		"completion":            {"bash", "fish", "powershell", "zsh", noFiles},
		"rules show --rule":     {nothing}, // no server answers
		"rules rollback":        {":36"},
		"rules promote":         {":36"},
		"rules apply --canary":  {"1%", "5%", "25%", noFiles},
		"rules diff rules.yaml": {nothing},
		"rules history":         {nothing},
	} {
		if got := completed(t, []string{"STINT_SERVER=http://127.0.0.1:1"}, append(strings.Fields(words), "")...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", words, got, want)
		}
	}
}

func TestShellsCompleteWhatTheServerKnows(t *testing.T) {
	a := administer(t)
	a.run(exitDone, nil, "rules", "apply", "--comment", "the first", a.file("first.yaml", adminRules))
	a.run(exitDone, nil, "rules", "apply", a.file("raised.yaml", adminRaised))
	for words, want := range map[string][]string{
		"rules show --rule":  {"a", "b", ":4"},
		"key peek --rule":    {"a", "b", ":4"},
		"key ban --rule":     {"a", "b", ":4"},
		"rules show --tier":  {"free", ":4"},
		"rules show":         {"2", "1", ":36"},
		"rules rollback":     {"2", "1", ":36"},
		"rules apply --base": {"2", "1", ":36"},
		"rules diff":         {"2", "1", ":32"},
		"rules diff 1":       {"2", "1", ":36"},
		"rules diff 1 2":     {":4"},
		"rules rollback 1":   {":4"},
		"key peek -a":        {"api_key=", "ip=", "method=", "path=", "host=", "tier=", ":6"},
	} {
		if got := completed(t, a.env, append(strings.Fields(words), "")...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", words, got, want)
		}
	}
	if got := command(t, a.env, "__complete", "rules", "rollback", ""); !strings.Contains(got.out, "1\tlocal") || !strings.Contains(got.out, ": the first\n") {
		t.Errorf("%s", got.out)
	}
}

func TestCompletionScriptsAreWhole(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := command(t, nil, "completion", shell); got.status != exitDone || !strings.Contains(got.out, "__complete") {
			t.Errorf("%s: status %d, %d bytes", shell, got.status, len(got.out))
		}
		if got := command(t, nil, "completion", shell, "--help"); !strings.Contains(got.out, "Examples:\n  stint completion "+shell) {
			t.Errorf("%s", got.out)
		}
	}
}
