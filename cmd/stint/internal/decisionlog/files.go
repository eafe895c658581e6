package decisionlog

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Files reads the lines of a log from its files: the old ones, the oldest first, and then the
// present one. It opens one old file at a time. An old file that [File] removes meanwhile is
// skipped. It is not safe for concurrent use.
type Files struct {
	// Size is the number of bytes in the files when they were opened.
	Size int64
	// Files is their number.
	Files int
	// OlderLeftOut says that the files have older lines, which do not fit.
	OlderLeftOut bool

	old     []oldFile
	skip    int64 // bytes of the next file that are left out
	opened  *os.File
	lines   io.Reader // of opened; nil: none is open
	present *os.File
}

// oldFile is a file that a new one has replaced.
type oldFile struct {
	path string
	end  time.Time
	size int64
}

// OpenFiles opens the files of a log that may have lines of the time from since to until; zero
// times set no bound. Of lines with more than the given number of bytes it reads the newest.
func OpenFiles(path string, since, until time.Time, most int64) (*Files, error) {
	// The present file is opened first: a file that is renamed now is then read once, as this one.
	present, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	f := &Files{present: present}
	info, err := present.Stat()
	if err == nil {
		f.old, err = oldFiles(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, present.Close())
	}
	size := info.Size()
	for i, one := range f.old {
		if !until.IsZero() && !one.end.Before(until) { // the later files begin after until
			f.old, size = f.old[:i+1], 0
			err = f.closePresent()
			break
		}
	}
	for len(f.old) > 0 && f.old[0].end.Before(since) {
		f.old = f.old[1:]
	}
	f.cut(size, most)
	return f, err
}

// oldFiles returns the old files of a log, the oldest first, without the present one.
func oldFiles(path string, present fs.FileInfo) (old []oldFile, err error) {
	folder, name := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(folder))
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // sorted by name, which is the order of time
		end, ok := oldEnd(name, e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && (os.SameFile(info, present) || !info.Mode().IsRegular()) {
			continue
		}
		if err != nil {
			return nil, err
		}
		old = append(old, oldFile{filepath.Join(folder, e.Name()), end, info.Size()})
	}
	return old, nil
}

// oldEnd returns the time at which an old file of the log with a name ended, and whether the file
// is one.
func oldEnd(log, name string) (time.Time, bool) {
	end, ok := strings.CutPrefix(name, log)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(suffix, end)
	return at, err == nil
}

// cut leaves out the oldest bytes beyond most. present is the size of the present file.
func (f *Files) cut(present, most int64) {
	f.Size, f.Files = present, len(f.old)
	if f.present != nil {
		f.Files++
	}
	for _, one := range f.old {
		f.Size += one.size
	}
	beyond := f.Size - most
	if beyond <= 0 {
		return
	}
	f.Size, f.OlderLeftOut = most, true
	for len(f.old) > 0 && beyond >= f.old[0].size {
		beyond -= f.old[0].size
		f.old = f.old[1:]
		f.Files--
	}
	f.skip = beyond
}

// Read reads the files one after another.
func (f *Files) Read(p []byte) (int, error) {
	for {
		if f.lines == nil {
			if err := f.next(); err != nil {
				return 0, err
			}
		}
		n, err := f.lines.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := f.closeOpened(); err != nil {
			return 0, err
		}
	}
}

// next opens the next file. Behind the bytes that are left out it begins with a whole line.
func (f *Files) next() error {
	for len(f.old) > 0 && f.opened == nil {
		file, err := os.Open(f.old[0].path)
		f.old = f.old[1:]
		if errors.Is(err, fs.ErrNotExist) {
			f.skip = 0
			continue
		}
		if err != nil {
			return err
		}
		f.opened = file
	}
	if f.opened == nil {
		f.opened, f.present = f.present, nil
	}
	if f.opened == nil {
		return io.EOF
	}
	f.lines = f.opened
	if f.skip == 0 {
		return nil
	}
	if _, err := f.opened.Seek(f.skip-1, io.SeekStart); err != nil { // the byte before may end a line
		return err
	}
	f.skip = 0
	lines := bufio.NewReader(f.opened)
	f.lines = lines
	for {
		if _, err := lines.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return nil // at the end of the file, Read goes on with the next one
		}
	}
}

// Close closes the files.
func (f *Files) Close() error { return errors.Join(f.closeOpened(), f.closePresent()) }

func (f *Files) closeOpened() error {
	var err error
	if f.opened != nil {
		err = f.opened.Close()
	}
	f.opened, f.lines = nil, nil
	return err
}

func (f *Files) closePresent() error {
	var err error
	if f.present != nil {
		err = f.present.Close()
	}
	f.present = nil
	return err
}
