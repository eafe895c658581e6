package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/cmd/stint/internal/yamlfile"
	"github.com/stintdev/stint/internal/suggest"
)

// origins holds where each setting was made: file:line:column, an environment
// variable, or "" for a flag on the command line. Settings that keep their
// default are absent.
type origins map[string]string

// applySettings sets the flags that the command line does not set. A variable of the environment
// takes precedence over the file that --config names.
func applySettings(flags *pflag.FlagSet, environment func(string) (string, bool)) (origins, error) {
	from := origins{}
	flags.Visit(func(f *pflag.Flag) { from[f.Name] = "" })
	if err := applyEnvironment(flags, from, environment); err != nil {
		return nil, err
	}
	if path := flags.Lookup("config").Value.String(); path != "" {
		if err := applyFile(flags, from, path); err != nil {
			return nil, err
		}
	}
	return from, from.checkCredentials(flags)
}

// applyEnvironment treats an empty variable as absent, because many tools that
// start processes cannot leave a variable out.
func applyEnvironment(flags *pflag.FlagSet, from origins, environment func(string) (string, bool)) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := "STINT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := environment(name)
		if _, given := from[f.Name]; !ok || value == "" || given || f.Name == "help" || err != nil {
			return
		}
		from[f.Name] = name
		err = set(f, name, value)
	})
	return err
}

func applyFile(flags *pflag.FlagSet, from origins, path string) error {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" { // only for a command line
			known = append(known, f.Name)
		}
	})
	settings, err := readSettings(path, known)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if _, given := from[s.name]; given {
			continue
		}
		from[s.name] = s.position
		if err := set(flags.Lookup(s.name), s.position+": "+s.name, s.value); err != nil {
			return err
		}
	}
	return nil
}

// set sets a flag. The error names where the value comes from and which kind of
// value the flag takes.
func set(f *pflag.Flag, where, value string) error {
	if err := f.Value.Set(value); err != nil {
		return usagef("%s: %q is not a valid %s", where, value, kindOf(f))
	}
	return nil
}

func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "whole number"
	case "bool":
		return "truth value (use true or false)"
	case "duration":
		return "duration (write it as 1s)"
	case "durationOrOff":
		return "duration (write it as 1s, or off)"
	case "stringSlice":
		return "list (separate by commas)"
	}
	return f.Value.Type()
}

// checkCredentials rejects a setting that restricts access and is given but
// empty, usually from a script whose variable is not set. With the default the
// server would be open to everybody.
func (o origins) checkCredentials(flags *pflag.FlagSet) error {
	for _, name := range []string{"http-token-file", "admin-token-file", "admin-tokens-file", "jwt-keys", "tls-cert", "tls-key", "client-ca", "key-hash-file"} {
		if _, given := o[name]; given && flags.Lookup(name).Value.String() == "" {
			return o.locate(usagef("%s: is given, and empty (name a file, or leave it out)", name))
		}
	}
	for _, name := range []string{"identity", "jwt-algorithms", "jwt-issuer", "jwt-audience"} {
		value := flags.Lookup(name).Value.String()
		if _, given := o[name]; given && (value == "" || value == "[]") {
			return o.locate(usagef("%s: is given, and empty (give it a value, or leave it out)", name))
		}
	}
	return nil
}

// locate puts the origin of a setting before an error about its value. Such an
// error begins with the name of the flag.
func (o origins) locate(err error) error {
	if _, ok := errors.AsType[usageError](err); !ok {
		return err
	}
	text := err.Error()
	end := strings.IndexAny(text, ": ")
	if end < 0 || o[text[:end]] == "" {
		return err
	}
	return usagef("%s: %w", o[text[:end]], err)
}

// setting is one entry of a settings file.
type setting struct {
	name     string // name of the flag
	value    string // the value as on a command line
	position string // file:line:column
}

// readSettings reads the file that --config names: a YAML mapping from names of
// flags to values or lists of values. A name may have underscores for dashes, as
// in rule files.
func readSettings(path string, known []string) ([]setting, error) {
	root, err := yamlfile.Read(path)
	if err != nil {
		if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
			err = fmt.Errorf("config: %w", err)
		}
		return nil, usagef("%w", err)
	}
	if root == nil {
		return nil, nil
	}
	return settingsOf(path, root, known)
}

// settingsOf returns the entries of a mapping. The error lists every mistake.
func settingsOf(path string, top *yaml.Node, known []string) (settings []setting, err error) {
	if top.Kind != yaml.MappingNode {
		return nil, usagef("%s: is not a mapping of settings (write lines such as http: \":8080\")", yamlfile.Position(path, top))
	}
	var mistakes []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		s, err := settingOf(path, top.Content[i], top.Content[i+1], known)
		switch {
		case err != nil:
			mistakes = append(mistakes, err)
		case seen[s.name]:
			mistakes = append(mistakes, usagef("%s: %s is set twice (remove one)", s.position, s.name))
		}
		seen[s.name] = true
		settings = append(settings, s)
	}
	return settings, errors.Join(mistakes...)
}

func settingOf(path string, key, value *yaml.Node, known []string) (setting, error) {
	s := setting{name: strings.ReplaceAll(key.Value, "_", "-"), position: yamlfile.Position(path, value)}
	if !slices.Contains(known, s.name) {
		hint := "settings have the names of flags: see stint serve --help"
		if near, ok := suggest.Name(s.name, known); ok {
			hint = "did you mean " + near + "?"
		}
		return s, usagef("%s: %q is not a known setting (%s)", yamlfile.Position(path, key), key.Value, hint)
	}
	var ok bool
	if s.value, ok = settingText(value); !ok {
		return s, usagef("%s: %s is neither a value nor a list of values", s.position, s.name)
	}
	return s, nil
}

// settingText returns a value as on a command line.
func settingText(node *yaml.Node) (string, bool) {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.Value, node.ShortTag() != "!!null"
	case yaml.SequenceNode:
		parts := make([]string, len(node.Content))
		for i, item := range node.Content {
			if item.Kind != yaml.ScalarNode || item.ShortTag() == "!!null" {
				return "", false
			}
			parts[i] = item.Value
		}
		return strings.Join(parts, ","), true
	}
	return "", false
}
