package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/internal/suggest"
)

// layer completes the flags that were not given from the environment, and
// those that are not there either from the file that --config names.
func layer(flags *pflag.FlagSet, environment func(string) (string, bool)) (origins, error) {
	from := origins{}
	flags.Visit(func(f *pflag.Flag) { from[f.Name] = "" })
	if err := layerEnvironment(flags, from, environment); err != nil {
		return nil, err
	}
	path := flags.Lookup("config").Value.String()
	if path == "" {
		return from, from.checkClosing(flags)
	}
	settings, err := readSettings(path, settingNames(flags))
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		if _, given := from[s.name]; given {
			continue
		}
		from[s.name] = s.position
		if err := set(flags.Lookup(s.name), s.position+": "+s.name, s.value); err != nil {
			return nil, err
		}
	}
	return from, from.checkClosing(flags)
}

// checkClosing refuses a setting that is to keep strangers out and was given
// empty, as by a script whose variable is not set: it would leave open what was
// meant to be closed.
func (o origins) checkClosing(flags *pflag.FlagSet) error {
	for _, name := range []string{"http-token-file", "admin-token-file", "admin-tokens-file", "tls-cert", "tls-key", "client-ca"} {
		if _, given := o[name]; given && flags.Lookup(name).Value.String() == "" {
			return o.place(usagef("%s: is given, and empty (name a file, or leave it out)", name))
		}
	}
	return nil
}

// layerEnvironment notes what it sets. An empty variable counts as absent,
// because many who start processes cannot leave one out.
func layerEnvironment(flags *pflag.FlagSet, from origins, environment func(string) (string, bool)) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := variableOf(f.Name)
		value, ok := environment(name)
		if _, given := from[f.Name]; !ok || value == "" || given || f.Name == "help" || err != nil {
			return
		}
		from[f.Name] = name
		err = set(f, name, value)
	})
	return err
}

// variableOf is the environment variable of a flag: max-keys is STINT_MAX_KEYS.
func variableOf(flag string) string {
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// set sets a flag from where; the error names the place and the kind of value.
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
	case "stringSlice":
		return "list (separate by commas)"
	}
	return f.Value.Type()
}

// settingNames are the flags that a settings file may set: all but those that
// only make sense on a command line.
func settingNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// placed is a position in a file, as errors begin.
func placed(file string, line, column int) string { return fmt.Sprintf("%s:%d:%d", file, line, column) }

// origins says where each setting was made: file:line:column, an environment
// variable, or "" for a flag on the command line.
type origins map[string]string

// place puts before a mistake where its setting was made. A mistake in what a
// setting says begins with the name of its flag.
func (o origins) place(err error) error {
	if _, mistaken := errors.AsType[usageError](err); !mistaken {
		return err
	}
	text := err.Error()
	end := strings.IndexAny(text, ": ")
	if end < 0 || o[text[:end]] == "" {
		return err
	}
	return usagef("%s: %w", o[text[:end]], err)
}

// setting is one line of a settings file.
type setting struct {
	name     string // the flag
	value    string // as it would be written behind the flag
	position string // file:line:column
}

// readSettings reads the file that --config names: one YAML mapping from the
// names of flags to values or lists of values. Underscores in names count as
// dashes, as rule files write them.
func readSettings(path string, known []string) ([]setting, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, usagef("config: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, notYAML(path, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, usagef("%s: holds more than one document (keep one)", path)
	}
	return settingsOf(path, document.Content[0], known)
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// notYAML places a mistake of the syntax. The parser tells its line at most,
// and counts from 0 where its scanner counts from 1.
func notYAML(path string, err error) error {
	line, text := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = strings.TrimPrefix(text, m[0])
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
		if strings.HasPrefix(text, "did not find expected") {
			line++
		}
	}
	return usagef("%s: not YAML: %s (mend the syntax here or below)", placed(path, line, 1), text)
}

// settingsOf lists every mistake, not only the first.
func settingsOf(path string, top *yaml.Node, known []string) (settings []setting, err error) {
	if top.Kind == yaml.ScalarNode && top.ShortTag() == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, usagef("%s: is not a list of settings (write lines such as http: \":8080\")", placed(path, top.Line, top.Column))
	}
	var wrong []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		s, err := settingOf(path, top.Content[i], top.Content[i+1], known)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case seen[s.name]:
			wrong = append(wrong, usagef("%s: %s is set twice (remove one)", s.position, s.name))
		}
		seen[s.name] = true
		settings = append(settings, s)
	}
	return settings, errors.Join(wrong...)
}

func settingOf(path string, key, value *yaml.Node, known []string) (setting, error) {
	s := setting{name: strings.ReplaceAll(key.Value, "_", "-"), position: placed(path, key.Line, key.Column)}
	if !slices.Contains(known, s.name) {
		return s, unknownSetting(s, key.Value, known)
	}
	text, ok := settingText(value)
	if !ok {
		return s, usagef("%s: %s is neither a value nor a list of values", placed(path, value.Line, value.Column), s.name)
	}
	s.value, s.position = text, placed(path, value.Line, value.Column)
	return s, nil
}

func unknownSetting(s setting, written string, known []string) error {
	if near, ok := suggest.Name(s.name, known); ok {
		return usagef("%s: %q is not a known setting (did you mean %s?)", s.position, written, near)
	}
	return usagef("%s: %q is not a known setting (they have the names of the flags: see stint serve --help)", s.position, written)
}

// settingText is a value as it would be written behind its flag.
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
