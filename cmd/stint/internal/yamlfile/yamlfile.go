// Package yamlfile parses the YAML files of settings into nodes with positions, and reads
// values from nodes.
//
// Use it where every mistake in a file must name its line. A caller says which keys a
// mapping has and what they mean; a [Reader] collects the mistakes.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the bytes of a file, so that a wrong name, such as that of a device,
// costs little.
const maxFile = 4 << 20

// Read returns the root of the single document in a file, or nil for an empty document.
// Errors begin with the path, and with the position of the mistake if it has one.
func Read(path string) (*yaml.Node, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // there is nothing in the file
	case err != nil:
		return nil, syntaxError(path, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: holds more than one document (keep one)", path)
	}
	root := Target(document.Content[0])
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil //nolint:nilnil // as an empty file
	}
	return root, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: is larger than %d bytes (name a file of settings)", path, maxFile)
	}
	return data, err
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxError adds the line to an error of the YAML parser. The parser reports at most a
// line. Its scanner counts lines from 1, its other parts from 0.
func syntaxError(path string, err error) error {
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
	return fmt.Errorf("%s:%d:1: not YAML: %s (correct the syntax in this line or below)", path, line, text)
}

// Target resolves an alias.
func Target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// Position returns where a node begins, in the form that errors begin with:
// file:line:column.
func Position(path string, n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", path, n.Line, n.Column)
}
