package ruleset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// How many versions are kept on a disk or in memory: so many whole, and of
// older ones all but their files.
const (
	wholeOnDisk   = 100
	wholeInMemory = 20
	listedAtAll   = 1000
	wholeCopies   = 3 // of what a node has run, to start from
)

// archive keeps versions in a folder, a sealed file each. Several processes may
// share it.
type archive struct {
	dir   string
	whole int // the newest so many keep their files
	all   int // older ones are removed
}

// errTaken means that there is a version of this number already.
var errTaken = errors.New("another process has added this version")

const archiveSuffix = ".json"

func (s *archive) path(number uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d", number)+archiveSuffix)
}

// numbers lists what is there, the newest first.
func (s *archive) numbers() (all []uint64) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil // as if it were empty; put says why
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), archiveSuffix)
		if n, err := strconv.ParseUint(name, 10, 64); ok && err == nil && n <= MaxNumber {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// list is at most n versions, the newest first, without files. What is damaged
// is passed over.
func (s *archive) list(n int) (all []Version) {
	for _, number := range s.numbers() {
		if len(all) >= n {
			break
		}
		if v, err := s.read(number); err == nil {
			all = append(all, v.listed())
		}
	}
	return all
}

// newest is the newest version that is whole; number 0 when there is none.
func (s *archive) newest() Version {
	for _, number := range s.numbers() {
		if v, err := s.get(number); err == nil {
			return v
		}
	}
	return Version{}
}

func (s *archive) get(number uint64) (Version, error) {
	v, err := s.read(number)
	if errors.Is(err, fs.ErrNotExist) || err == nil && v.Files == nil {
		return Version{}, ErrNone
	}
	return v, err
}

func (s *archive) read(number uint64) (Version, error) {
	data, err := os.ReadFile(s.path(number))
	if err != nil {
		return Version{}, err
	}
	if data, err = unseal(data); err != nil {
		return Version{}, fmt.Errorf("%s %w", s.path(number), err)
	}
	return DecodeNumbered(number, data)
}

// add puts a version on the shelf; errTaken when its number is there.
func (s *archive) add(v Version) error {
	temp, err := s.prepare(v)
	if err != nil {
		return err
	}
	err = place(temp, s.path(v.Number))
	_ = os.Remove(temp) // a leftover is passed over
	if errors.Is(err, fs.ErrExist) {
		return errTaken
	}
	return errors.Join(err, syncFolder(s.dir), s.prune())
}

// place gives a file its name unless the name is taken. On a disk without hard
// links two processes at the same moment could both have it.
func place(temp, path string) error {
	err := os.Link(temp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, taken := os.Lstat(path); taken == nil {
		return fs.ErrExist
	}
	return os.Rename(temp, path)
}

// set puts a version on the shelf in place of one of its number.
func (s *archive) set(v Version) error {
	temp, err := s.prepare(v)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, s.path(v.Number)); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return errors.Join(syncFolder(s.dir), s.prune())
}

// prepare writes a version to a file that is not one of the shelf yet.
func (s *archive) prepare(v Version) (temp string, err error) {
	data, err := Encode(v)
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	return writeBeside(s.path(v.Number), seal(data), 0o600)
}

func (s *archive) remove(number uint64) { _ = os.Remove(s.path(number)) }

// removeFarAbove removes versions whose numbers a repair has done away with.
func (s *archive) removeFarAbove(number uint64) {
	for _, n := range s.numbers() {
		if n > number && n-number > farAhead {
			s.remove(n)
		}
	}
}

// prune takes the files of old versions, and the oldest versions.
func (s *archive) prune() error {
	numbers := s.numbers()
	if len(numbers) > s.all {
		for _, n := range numbers[s.all:] {
			s.remove(n)
		}
	}
	if len(numbers) <= s.whole || s.whole >= s.all {
		return nil
	}
	old := numbers[s.whole]
	v, err := s.read(old)
	if err != nil || v.Files == nil {
		return nil //nolint:nilerr // what cannot be read takes no part
	}
	temp, err := s.prepare(v.listed())
	if err != nil {
		return err
	}
	return os.Rename(temp, s.path(old))
}
