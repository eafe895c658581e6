package rule

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// File is the content of one rule file.
type File struct {
	Name string // used in messages
	Data []byte // YAML, or JSON, which is YAML too
}

// Parse parses the files as one rule set. Rules and lists of all files are
// combined in order. A tier, the defaults and ipv6_prefix may each be set in
// only one file. The error is [Problems], which lists every mistake; there is
// then no set.
func Parse(files ...File) (*Set, error) {
	f := &findings{seen: make(map[Problem]bool), shared: make(map[string]Problems)}
	for _, file := range files {
		f.files = append(f.files, file.Name)
	}
	raw := &rawFile{}
	for i, file := range files {
		r := reader{findings: f, file: int32(i)}
		r.readFile(file, raw)
	}
	c := compiler{
		findings: f, raw: raw, set: &Set{slots: newSlots(), files: f.files},
		regexes: make(map[string]*regexp.Regexp), hashes: make(map[string]limitName),
	}
	if !f.stop {
		c.compile()
	}
	if len(f.mistakes) > 0 {
		return nil, f.inOrder(f.mistakes)
	}
	c.set.warnings, c.set.shared = f.inOrder(f.warnings), f.shared
	for store, list := range f.shared {
		f.shared[store] = f.inOrder(list)
	}
	return c.set, nil
}

// Load reads one rule set from a file, or from every *.yaml, *.yml and *.json
// file of a folder in name order. It skips hidden files and folders. If no file
// is left, the set has a warning. The error is [Problems].
func Load(path string) (*Set, error) {
	files, err := ReadFiles(path)
	if err != nil {
		return nil, err
	}
	set, err := Parse(files...)
	if err == nil && len(files) == 0 {
		set.warnings = append(set.warnings, Problem{File: path, What: "holds no *.yaml, *.yml or *.json, so that it limits nothing", Mend: "name the folder of the rules"})
	}
	return set, err
}

// ReadFiles reads the files that [Load] would parse. The error is [Problems].
func ReadFiles(path string) ([]File, error) {
	names, err := fileNames(path)
	if err != nil {
		return nil, Problems{unreadable(path, err)}
	}
	var files []File
	var problems Problems
	for _, name := range names {
		data, err := readBounded(name)
		if err != nil {
			problems = append(problems, unreadable(name, err))
		}
		files = append(files, File{name, data})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return files, nil
}

// CheckEmptied returns an error, which is [Problems], if all files have vanished since
// before, or if one that had content is blank now. Either is more likely an accident
// than a decision to have no rules. path is the name of the file or folder.
func CheckEmptied(path string, before, now []File) error {
	filled := make(map[string]bool)
	for _, f := range before {
		if !blank(f) {
			filled[filepath.Base(f.Name)] = true
		}
	}
	if len(now) == 0 && len(filled) > 0 {
		return Problems{{File: path, What: "no longer holds a rule file", Mend: "to have no rules, leave one that says rules: []"}}
	}
	for _, f := range now {
		if blank(f) && filled[filepath.Base(f.Name)] {
			return Problems{{File: f.Name, What: "has become empty", Mend: "to have no rules, write rules: []"}}
		}
	}
	return nil
}

func blank(f File) bool { return len(bytes.TrimSpace(f.Data)) == 0 }

// unreadable returns the problem of a file or folder that cannot be read. The reason has no
// path, because the problem names it.
func unreadable(path string, err error) Problem {
	p := Problem{File: path, What: "cannot be read: " + err.Error()}
	if of, ok := errors.AsType[*os.PathError](err); ok {
		p.What = "cannot be read: " + of.Err.Error()
	}
	if errors.Is(err, os.ErrNotExist) {
		p.Mend = "check the name, and the folder in which the program runs"
	}
	return p
}

func fileNames(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		name := filepath.Join(path, e.Name())
		// Stat follows symbolic links: each file of a mounted ConfigMap is one.
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			names = append(names, name)
		}
	}
	return names, nil
}

// readTime is the longest wait for the end of a pipe.
const readTime = 5 * time.Second

// readBounded reads a file up to slightly more than the largest allowed size.
// It does not block on a pipe without a writer.
func readBounded(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the operator chooses the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(readTime)) // fails for a regular file, which needs no deadline
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("it is over %d bytes long", maxFile)
	}
	return data, err
}

//go:embed builtin.yaml
var builtinFile []byte

// BuiltinFile returns the rule file of [Builtin].
func BuiltinFile() File { return File{Name: "builtin.yaml", Data: append([]byte(nil), builtinFile...)} }

// Builtin returns the rule set of a server without configured rules: 100
// requests a minute for each API key, or for the address of a request without a
// key, and 1000 requests a minute for each address in total.
func Builtin() *Set {
	s, err := Parse(BuiltinFile())
	if err != nil {
		return nil // a test checks that the embedded file has no mistakes
	}
	return s
}
