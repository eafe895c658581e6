package decisionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// File is a [Sink] that appends lines to a file, and begins a new file when the file is large
// or old. It is not safe for concurrent use.
type File struct {
	options FileOptions
	file    *os.File
	size    int64
	began   time.Time
}

// FileOptions configures a [File].
type FileOptions struct {
	Path string
	// MaxSize is the size in bytes from which a new file begins, and MaxAge the age. The old
	// file is renamed: the time of its end is added to its name. 0 sets no bound.
	MaxSize int64
	MaxAge  time.Duration
	// Keep is the number of old files that are kept; the others are removed. 0 keeps all.
	Keep int
	Now  func() time.Time // nil: time.Now
}

// fileMode lets only the server's user read the log.
const fileMode = 0o600

// errShared is the error of a file that another process has open.
var errShared = errors.New("another process has this file open")

// Open opens the file, or makes it. Two processes cannot have it open, because each would rename
// and remove the files of the other, and the lines in them would be lost. The last line of a file that ends within a line is
// removed: a process that was killed has left it. The age of a file counts from the time of its
// first line, so that a restart does not prolong it.
func Open(o FileOptions) (*File, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &File{options: o}
	return f, f.open()
}

func (f *File) open() error {
	file, err := os.OpenFile(f.options.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		if err = lock(file); err == nil {
			f.size, err = removePart(file)
		}
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.began = file, f.options.Now()
	if first := firstTime(file); f.size > 0 && !first.IsZero() && first.Before(f.began) {
		f.began = first
	}
	return nil
}

// firstTime returns the time of the first line, or the zero time if it has none. It looks at the
// beginning of the line, where the log writes the time.
func firstTime(file *os.File) time.Time {
	var room [64]byte
	n, _ := file.ReadAt(room[:], 0)
	rest, ok := bytes.CutPrefix(room[:n], []byte(timeMember))
	end := bytes.IndexByte(rest, ',')
	if !ok || end < 0 {
		return time.Time{}
	}
	us, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	if err != nil || us <= 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// removePart removes what stands behind the last line feed, and returns the size.
func removePart(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	size, err := endOfLines(file, info.Size())
	if err == nil && size < info.Size() {
		err = file.Truncate(size)
	}
	return size, err
}

// endOfLines returns the position behind the last line feed.
func endOfLines(file *os.File, size int64) (int64, error) {
	room := make([]byte, 64<<10)
	for size > 0 {
		n := min(size, int64(len(room)))
		if _, err := file.ReadAt(room[:n], size-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(room[:n], '\n'); i >= 0 {
			return size - n + int64(i) + 1, nil
		}
		size -= n
	}
	return 0, nil
}

// WriteLines appends lines. After an error the file ends with a complete line.
func (f *File) WriteLines(lines []byte) (stored int, err error) {
	rotated := f.rotate()
	if f.file == nil { // a new file could not be opened before
		if err := f.open(); err != nil {
			return 0, errors.Join(rotated, err)
		}
	}
	n, err := f.file.Write(lines)
	f.size += int64(n)
	if err == nil {
		return countLines(lines), rotated
	}
	whole := lines[:bytes.LastIndexByte(lines[:n], '\n')+1]
	if part := n - len(whole); part > 0 {
		f.size -= int64(part)
		if failed := f.file.Truncate(f.size); failed != nil { // not a regular file
			_, _ = io.WriteString(f.file, "\n") // ends the line, if it can
		}
	}
	return countLines(whole), err
}

// rotate begins a new file if the present one is large or old. If that fails, the present
// one goes on.
func (f *File) rotate() error {
	o := &f.options
	if f.file == nil || f.size == 0 {
		return nil
	}
	now := f.options.Now()
	if large, old := o.MaxSize > 0 && f.size >= o.MaxSize, o.MaxAge > 0 && now.Sub(f.began) >= o.MaxAge; !large && !old {
		return nil
	}
	old := o.Path + now.UTC().Format(suffix)
	if err := os.Rename(o.Path, old); err != nil {
		f.began = now // try again later
		return fmt.Errorf("cannot begin a new file: %w", err)
	}
	err := f.file.Close()
	f.file, f.size = nil, 0
	return errors.Join(err, f.open(), f.removeOld())
}

// suffix is what the name of an old file has: the time of its end in UTC.
const suffix = ".20060102T150405.000000"

// removeOld removes the oldest files beyond Keep.
func (f *File) removeOld() error {
	if f.options.Keep <= 0 {
		return nil
	}
	folder, name := filepath.Split(f.options.Path)
	if folder == "" {
		folder = "."
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries { // sorted by name, which is the order of time
		if _, ok := oldEnd(name, e.Name()); ok {
			old = append(old, e.Name())
		}
	}
	for _, name := range old[:max(0, len(old)-f.options.Keep)] {
		err = errors.Join(err, os.Remove(filepath.Join(folder, name)))
	}
	return err
}

// Reopen closes the file and opens the path again, for programs that rename log files
// themselves.
func (f *File) Reopen() error {
	err := f.Close()
	f.file, f.size = nil, 0
	return errors.Join(err, f.open())
}

// Close closes the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Stream is a [Sink] of a stream, such as standard output.
type Stream struct{ W io.Writer }

// WriteLines writes the lines.
func (s Stream) WriteLines(lines []byte) (stored int, err error) {
	n, err := s.W.Write(lines)
	return countLines(lines[:n]), err
}

// Close does nothing: the stream belongs to its owner.
func (s Stream) Close() error { return nil }
