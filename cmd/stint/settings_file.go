package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/internal/suggest"
)

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
