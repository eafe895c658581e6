package envoyrls

import (
	"crypto/sha256"
	"errors"
	"fmt"
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
	domains  map[string]*file
	errs     []error // one a file that is not served as it stands
	warnings rule.Problems
	changed  bool
}

// read reads the folder. An error means that it cannot be read at all, so that
// everything stays as it was.
func (f *folder) read() (*reading, error) {
	names, err := configFiles(f.path)
	if err != nil {
		return nil, err
	}
	r := &reading{domains: map[string]*file{}}
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
	data, err := os.ReadFile(name) //nolint:gosec // the operator names the folder
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

// add puts a file in force, or its last good version. Of two files that name
// one domain, the first by name has it.
func (r *reading) add(k *kept) {
	r.warnings = append(r.warnings, k.warnings...)
	if k.err != nil {
		r.errs = append(r.errs, k.err)
	}
	if k.good == nil {
		return
	}
	if first := r.domains[k.good.domain]; first != nil {
		r.errs = append(r.errs, rule.Problems{{
			File: k.good.name, Line: k.good.at.Line, Column: k.good.at.Column,
			What: fmt.Sprintf("duplicate domain '%s' in config file, which %s has", k.good.domain, first.name),
			Mend: "write all of a domain into one file",
		}})
		return
	}
	r.domains[k.good.domain] = k.good
}

// err is everything that is wrong.
func (r *reading) err() error { return errors.Join(r.errs...) }

// configFiles are the files of a folder that end in .yaml or .yml, in order.
// Names that begin with a dot are not for us: a mounted ConfigMap has them.
func configFiles(path string) (names []string, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		extension := filepath.Ext(e.Name())
		if !strings.HasPrefix(e.Name(), ".") && (extension == ".yaml" || extension == ".yml") {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	slices.Sort(names)
	return names, nil
}
