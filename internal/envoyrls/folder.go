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

	"github.com/stintdev/stint/rule"
)

// folder reads the configuration files of a folder, and keeps the last good
// version of each.
type folder struct {
	path  string
	merge bool             // files may share a domain
	files map[string]*kept // by name
	last  [sha256.Size]byte
}

// kept is a file as it was read last, and as it was good last.
type kept struct {
	sum      [sha256.Size]byte
	good     *file // nil: it never was
	warnings rule.Problems
	err      error // what is wrong with it now
}

// reading is what a folder says at one time.
type reading struct {
	merge    bool
	domains  map[string]*file
	errs     []error // one a file that is not served as it stands
	warnings rule.Problems
	changed  bool
}

// read reads the folder. An error means that it cannot be read at all, so that
// everything stays as it was.
func (f *folder) read() (*reading, error) {
	names, overlooked, err := configFiles(f.path)
	if err != nil {
		f.last = [sha256.Size]byte{} // what comes back is news
		return nil, err
	}
	r := &reading{merge: f.merge, domains: map[string]*file{}, warnings: overlooked}
	all := sha256.New()
	files := make(map[string]*kept, len(names))
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

// readFile reads one file, unless it is the same as last time.
func (f *folder) readFile(name string) *kept {
	k := &kept{}
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
	good, warnings, err := parse(name, data)
	if k.warnings, k.err = warnings, err; err == nil {
		k.good = good
	}
	return k
}

// readAll reads a file, and no more of it than shows that it is too long. What
// is no file may never end, or never begin.
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

// add puts a file in force, or its last good version. Of two files that name
// one domain, the first by name has it, unless they are merged.
func (r *reading) add(k *kept) {
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

// join adds a file to what others say of its domain: all of it, or nothing
// when a descriptor is in both.
func (r *reading) join(first, next *file) {
	for p := range next.top.children {
		if first.top.children[p] != nil {
			d := draft{pair: p}
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

// err is everything that is wrong.
func (r *reading) err() error { return errors.Join(r.errs...) }

// configFiles are the files of a folder that end in .yaml or .yml, in order, and
// what else is in it. Names that begin with a dot are not for us: a mounted
// ConfigMap has them.
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
			overlooked = told(overlooked, rule.Problem{File: name, What: "is a folder, and what is in it is not read", Mend: "move its files up"})
		case extension == ".yaml" || extension == ".yml":
			names = append(names, name)
		default:
			overlooked = told(overlooked, rule.Problem{File: name, What: "is not read, because its name does not end in .yaml or .yml", Mend: "rename it, or move it elsewhere"})
		}
	}
	slices.Sort(names)
	return names, overlooked, nil
}
