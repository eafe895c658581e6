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

// Bounds on the versions that are kept on disk or in memory. The newest
// versions are kept whole; of older ones the files are dropped and the metadata
// is kept.
const (
	wholeOnDisk   = 100
	wholeInMemory = 20
	listedOnDisk  = 1000
	wholeCopies   = 3 // versions that a node has run, kept for its next start
)

// archive keeps versions in a folder, each in a file with a checksum. Several
// processes may share the folder.
type archive struct {
	dir   string
	whole int // number of newest versions that keep their files
	all   int // number of versions kept at all; older ones are removed
}

// errTaken means that a version with this number exists.
var errTaken = errors.New("another process has added this version")

const archiveSuffix = ".json"

func (s *archive) path(number uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d", number)+archiveSuffix)
}

// numbers returns the numbers of the stored versions, the newest first.
func (s *archive) numbers() (all []uint64) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil // treated as empty; a write reports the error
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

// list returns at most n versions without their files, the newest first. It
// skips damaged versions.
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

// newest returns the newest version that is whole, or a version with number 0
// when there is none.
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

// add stores a version. It returns errTaken when a version with its number
// exists.
func (s *archive) add(v Version) error {
	data, err := s.encoded(v)
	if err != nil {
		return err
	}
	temp, err := writeBeside(s.path(v.Number), data, 0o600)
	if err != nil {
		return err
	}
	err = place(temp, s.path(v.Number))
	_ = os.Remove(temp) // a leftover file is ignored
	if errors.Is(err, fs.ErrExist) {
		return errTaken
	}
	return errors.Join(err, syncFolder(s.dir), s.prune())
}

// place renames a file unless the new name exists. On a file system without
// hard links the check and the rename are not atomic, so two processes can both
// succeed.
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

// set stores a version and replaces one with the same number.
func (s *archive) set(v Version) error {
	if err := s.write(v); err != nil {
		return err
	}
	return errors.Join(syncFolder(s.dir), s.prune())
}

func (s *archive) write(v Version) error {
	data, err := s.encoded(v)
	if err != nil {
		return err
	}
	return replaceFile(s.path(v.Number), data, 0o600)
}

// encoded returns the content of a version's file, and creates the folder.
func (s *archive) encoded(v Version) ([]byte, error) {
	data, err := Encode(v)
	if err != nil {
		return nil, err
	}
	return seal(data), os.MkdirAll(s.dir, 0o700)
}

func (s *archive) remove(number uint64) { _ = os.Remove(s.path(number)) }

// removeFarAbove removes the versions whose numbers a repair has invalidated.
func (s *archive) removeFarAbove(number uint64) {
	for _, n := range s.numbers() {
		if n > number && n-number > farAhead {
			s.remove(n)
		}
	}
}

// prune removes the oldest versions, and the files of the next older ones.
func (s *archive) prune() error {
	numbers := s.numbers()
	for _, n := range numbers[min(s.all, len(numbers)):] {
		s.remove(n)
	}
	if len(numbers) <= s.whole || s.whole >= s.all {
		return nil
	}
	old := numbers[s.whole]
	v, err := s.read(old)
	if err != nil || v.Files == nil {
		return nil //nolint:nilerr // an unreadable version is left as it is
	}
	return s.write(v.listed())
}

// replaceFile writes a file by a rename. A reader sees either the old or the new
// content, whenever this process is killed.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	temp, err := writeBeside(path, data, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// writeBeside writes a hidden file in the folder of path and syncs it to disk.
// The caller renames it to path.
func writeBeside(path string, data []byte, mode fs.FileMode) (temp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".stint-*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// syncFolder makes renames in a folder durable. The error of a sync is ignored,
// because some file systems cannot sync folders.
func syncFolder(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // a folder of the operator's choice
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}
