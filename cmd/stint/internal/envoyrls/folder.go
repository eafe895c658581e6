package envoyrls

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// folder reads the configuration files of a directory, and keeps the last good version
// of each.
type folder struct {
	path  string
	merge bool                  // files may share a domain
	files map[string]*fileState // the files, by name
	// consistency is that of limits that name none
	consistency stint.Consistency
	last        [sha256.Size]byte
}

// fileState is the state of one file: as it was last read, and its last good version.
type fileState struct {
	sum      [sha256.Size]byte
	good     *file // the last good version; nil: none yet
	warnings rule.Problems
	err      error // why the current version is not good
}

// reading is the result of reading the directory once.
type reading struct {
	merge    bool
	domains  map[string]*file
	errs     []error // one for each file whose current version is not in force
	warnings rule.Problems
	changed  bool
}

// read reads the directory. An error means that the directory cannot be read at all,
// so nothing changes.
func (f *folder) read() (*reading, error) {
	names, overlooked, err := configFiles(f.path)
	if err != nil {
		f.last = [sha256.Size]byte{} // the next successful read counts as a change
		return nil, err
	}
	r := &reading{merge: f.merge, domains: map[string]*file{}, warnings: overlooked}
	all := sha256.New()
	files := make(map[string]*fileState, len(names))
	for _, name := range names {
		k := f.readFile(name)
		files[name] = k
		fmt.Fprintf(all, "%s:%x:%v\n", name, k.sum, k.err)
		r.add(k)
	}
	var sum [sha256.Size]byte
	all.Sum(sum[:0])
	r.changed, f.last, f.files = sum != f.last, sum, files
	return r, nil
}

// readFile reads one file. An unchanged file keeps its earlier result.
func (f *folder) readFile(name string) *fileState {
	k := &fileState{}
	before := f.files[name]
	if before != nil {
		k.good = before.good
	}
	data, err := readAll(name)
	if err != nil {
		k.err = err
		return k
	}
	if k.sum = sha256.Sum256(data); before != nil && before.sum == k.sum {
		return before
	}
	good, warnings, err := parse(name, data, f.consistency)
	if k.warnings, k.err = warnings, err; err == nil {
		k.good = good
	}
	return k
}

// readAll reads a regular file, at most one byte more than maxFile. It refuses other
// files, because to open or read a pipe or a device may block for ever.
func readAll(name string) ([]byte, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, rule.Problems{{File: name, What: "is not a file", Mend: "remove it"}}
	}
	f, err := os.Open(name) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// add puts the last good version of a file in force. If two files name one domain, the
// first by name gets it, unless files are merged.
func (r *reading) add(k *fileState) {
	r.warnings = append(r.warnings, k.warnings...)
	if k.err != nil {
		r.errs = append(r.errs, k.err)
	}
	if k.good == nil {
		return
	}
	first := r.domains[k.good.domain]
	switch {
	case first == nil:
		r.domains[k.good.domain] = k.good
	case r.merge:
		r.join(first, k.good)
	default:
		r.clash(k.good, fmt.Sprintf("duplicate domain '%s' in config file, which %s has", k.good.domain, first.name), "write all of a domain into one file")
	}
}

func (r *reading) clash(f *file, what, mend string) {
	r.errs = append(r.errs, rule.Problems{{File: f.name, Line: f.at.Line, Column: f.at.Column, What: what, Mend: mend}})
}

// join merges a file into the domain that other files have begun. If a descriptor is
// in both, join reports a mistake and adds nothing.
func (r *reading) join(first, next *file) {
	for p := range next.top.children {
		if first.top.children[p] != nil {
			d := rawDescriptor{pair: p}
			r.clash(next, fmt.Sprintf("duplicate descriptor composite key '%s.%s', which another file of the domain has", next.domain, d.text()), "keep one")
			return
		}
	}
	children := maps.Clone(first.top.children)
	maps.Copy(children, next.top.children)
	r.domains[next.domain] = &file{
		name: first.name, domain: first.domain, at: first.at,
		top:    &node{children: children, wild: slices.Concat(first.top.wild, next.top.wild)},
		limits: slices.Concat(first.limits, next.limits),
	}
}

// err returns all mistakes as one error.
func (r *reading) err() error { return errors.Join(r.errs...) }

// configFiles returns the files of a directory that end in .yaml or .yml, in order,
// and a warning for each other entry. It ignores names that begin with a dot, which a
// mounted ConfigMap has.
func configFiles(path string) (names []string, overlooked rule.Problems, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		extension := filepath.Ext(e.Name())
		switch name := filepath.Join(path, e.Name()); {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			overlooked = appendProblem(overlooked, rule.Problem{File: name, What: "is a folder, and what is in it is not read", Mend: "move its files up"})
		case extension == ".yaml" || extension == ".yml":
			names = append(names, name)
		default:
			overlooked = appendProblem(overlooked, rule.Problem{File: name, What: "is not read, because its name does not end in .yaml or .yml", Mend: "rename it, or move it elsewhere"})
		}
	}
	slices.Sort(names)
	return names, overlooked, nil
}
