package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlagBeatsEnvironmentBeatsFile(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "stint.yaml"), "http: file:1\nmax-keys: 7\nkey_prefix: fromfile\n")
	env := map[string]string{"STINT_CONFIG": file, "STINT_HTTP": "env:1", "STINT_MAX_KEYS": "8", "STINT_GRPC": ""}
	flags := withSettings(t, env, "--http", "flag:1")
	for _, c := range []struct{ name, got, want string }{
		{"flag over all", flags.http, "flag:1"},
		{"file where nothing else", flags.keyPrefix, "fromfile"},
		{"default where the variable is empty", flags.grpc, ":8081"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	if flags.maxKeys != 8 {
		t.Errorf("environment over file: max-keys %d, want 8", flags.maxKeys)
	}
}

func TestListsAreWrittenWithCommasOrAsYAML(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"commas.yaml": "trusted-proxies: 10.0.0.0/8,192.168.0.0/16\n",
		"list.yaml":   "trusted-proxies:\n  - 10.0.0.0/8\n  - 192.168.0.0/16\n",
	} {
		flags := withSettings(t, nil, "--config", writeFile(t, filepath.Join(folder, name), text))
		if want := []string{"10.0.0.0/8", "192.168.0.0/16"}; !slices.Equal(flags.trusted, want) {
			t.Errorf("%s: %q, want %q", name, flags.trusted, want)
		}
	}
}

func TestEmptySettingsFileSetsNothing(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "null\n"} {
		flags := withSettings(t, nil, "--config", writeFile(t, filepath.Join(t.TempDir(), "stint.yaml"), text))
		if flags.http != ":8080" {
			t.Errorf("%q: http is %q", text, flags.http)
		}
	}
}

func TestWrongSettingsAreReportedWithTheirPosition(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":        {"http: off\nmaxkeys: 5\n", "stint.yaml:2:1: \"maxkeys\" is not a known setting (did you mean max-keys?)"},
		"far key":            {"colour: red\n", "stint.yaml:1:1: \"colour\" is not a known setting (settings have the names of flags"},
		"config in config":   {"config: a.yaml\n", "stint.yaml:1:1: \"config\" is not a known setting"},
		"wrong type":         {"max-keys: many\n", "stint.yaml:1:11: max-keys: \"many\" is not a valid whole number"},
		"mapping as value":   {"http:\n  port: 1\n", "stint.yaml:2:3: http is neither a value nor a list"},
		"nothing as value":   {"http:\n", "stint.yaml:1:6: http is neither a value nor a list"},
		"the same key twice": {"max-keys: 1\nmax_keys: 2\n", "stint.yaml:2:11: max-keys is set twice"},
		"no mapping":         {"- http\n", "stint.yaml:1:1: is not a mapping of settings"},
		"two documents":      {"http: off\n---\nhttp: off\n", "more than one document"},
		"no YAML":            {"http: off\ngrpc: [\n", "stint.yaml:3:1: not YAML: did not find expected node content (correct"},
		"out of range":       {"http: off\ndrain-delay: 20s\n", "stint.yaml:2:14: drain-delay: 20s is out of range (use 0s to 8s)"},
		"an empty address":   {"http: ''\n", "stint.yaml:1:7: http: is empty (write host:port or :port, or off)"},
		"an empty name":      {"http: off\nclient-ca: ''\n", "stint.yaml:2:12: client-ca: is given, and empty (name a file"},
		"part of a list":     {"trusted-proxies: [10.0.0.1, x]\n", "stint.yaml:1:18: trusted-proxies: \"x\" is neither"},
		"all, not the first": {"htp: 1\ngrcp: 2\n", "stint.yaml:2:1: \"grcp\" is not a known setting (did you mean grpc?)"},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, filepath.Join(t.TempDir(), "stint.yaml"), c.text)
			err := trySettings(nil, "--config", file)
			if err == nil || !strings.Contains(err.Error(), c.want) || exitStatus(err) != exitUsage {
				t.Errorf("error %v (status %d), want one with %q", err, exitStatus(err), c.want)
			}
		})
	}
}

func TestWrongVariableIsNamed(t *testing.T) {
	err := trySettings(map[string]string{"STINT_NODES": "x"})
	if err == nil || !strings.Contains(err.Error(), `STINT_NODES: "x" is not a valid whole number`) {
		t.Errorf("error %v", err)
	}
}

// TestAMistakeNamesItsOrigin wants the origin of the value in force, not of one
// that it overrides.
func TestAMistakeNamesItsOrigin(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "stint.yaml"), "max-keys: 0\n")
	env := map[string]string{"STINT_CONFIG": file, "STINT_MAX_KEYS": "-1"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"file":        {trySettings(nil, "--config", file), file + ":1:11: max-keys: 0 is below 1 (use 1 or more)"},
		"environment": {trySettings(env), "STINT_MAX_KEYS: max-keys: -1 is below 1 (use 1 or more)"},
		"flag":        {trySettings(env, "--max-keys", "-2"), "max-keys: -2 is below 1 (use 1 or more)"},
	} {
		if c.err == nil || c.err.Error() != c.want || exitStatus(c.err) != exitUsage {
			t.Errorf("%s: error %v, want %q", name, c.err, c.want)
		}
	}
}

func TestMissingSettingsFileIsAMistake(t *testing.T) {
	err := trySettings(nil, "--config", filepath.Join(t.TempDir(), "none.yaml"))
	if exitStatus(err) != exitUsage {
		t.Errorf("error %v", err)
	}
}

func withSettings(t *testing.T, env map[string]string, args ...string) serveFlags {
	t.Helper()
	var flags serveFlags
	if err := parseSettings(&flags, env, args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func trySettings(env map[string]string, args ...string) error {
	return parseSettings(new(serveFlags), env, args)
}

func parseSettings(flags *serveFlags, env map[string]string, args []string) error {
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.define(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	from, err := applySettings(set, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err == nil {
		_, err = flags.config()
		err = from.locate(err)
	}
	return err
}
