// Package secret reads passwords, tokens and certificates from files, and reads them
// again when they have changed.
//
// The last valid content of a file stays in force while its new content is invalid: a
// mistake in rotating a password must not stop a server. The package does not watch
// files. Its callers decide when to read again: on a file system event, on a signal,
// before a connection is made.
package secret

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// maxFile bounds the bytes read from a file. A bundle of all public authorities is a
// quarter of a megabyte.
const maxFile = 4 << 20

// Files are files that belong together, such as a certificate and its key. Make them with
// [Open]. A nil *Files has nothing to read. The methods are safe for concurrent use.
type Files struct {
	name  string // the flag or parameter that names the files
	paths []string
	use   func(contents [][]byte) error
	once  bool // one of them is a pipe, which can be read only once

	mu  sync.Mutex
	log *slog.Logger      // guarded by mu
	sum [sha256.Size]byte // guarded by mu; hash of the last read contents, valid or not
}

// Open reads the files and passes their contents, in the order of the paths, to use. It
// puts them in force as a whole, or returns an error and changes nothing. name is the
// flag or parameter that names the files; errors and log lines begin with it. use is
// called by one goroutine at a time.
func Open(name string, paths []string, use func(contents [][]byte) error) (*Files, error) {
	f := &Files{name: name, paths: slices.Clone(paths), use: use, log: slog.New(slog.DiscardHandler)}
	f.once = slices.ContainsFunc(paths, isPipe)
	contents, sum, err := f.read()
	if err == nil {
		err = use(contents)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.sum = sum
	return f, nil
}

// LogTo sets the logger for later reads. Nil discards.
func (f *Files) LogTo(log *slog.Logger) {
	if f == nil || log == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = log
}

// Paths returns the files that can be read again. A pipe cannot, such as what a shell
// makes of <(command).
func (f *Files) Paths() []string {
	if f == nil || f.once {
		return nil
	}
	return slices.Clone(f.paths)
}

// Refresh reads the files and puts them in force if they have changed since the last
// read. It logs the result; the same mistake is logged once.
func (f *Files) Refresh() { f.again(false) }

// Reload is Refresh, but also logs if nothing has changed, so that an operator sees that
// the files were read.
func (f *Files) Reload() { f.again(true) }

func (f *Files) again(asked bool) {
	if f == nil || f.once {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	contents, sum, err := f.read()
	if !asked && sum == f.sum {
		return
	}
	f.sum = sum
	if err == nil {
		err = f.use(contents)
	}
	if err != nil {
		f.log.Error("secret file rejected; its previous content stays in force", "setting", f.name, "file", f.shown(), "error", err)
		return
	}
	f.log.Info("secret file reloaded", "setting", f.name, "file", f.shown())
}

// read returns the contents and their hash. For a file that cannot be read, the error is
// hashed, so that it is reported once.
func (f *Files) read() (contents [][]byte, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	for _, path := range f.paths {
		data, readError := f.readFile(path)
		err = errors.Join(err, readError)
		contents = append(contents, data)
		_, _ = fmt.Fprintf(hash, "%d:%s%v", len(data), data, readError) // a hash never fails
	}
	return contents, [sha256.Size]byte(hash.Sum(nil)), err
}

// readFile reads at most maxFile bytes. It refuses a pipe where there was a file at
// first: opening a pipe blocks until there is a writer, and everyone who needs the secret
// would wait too.
func (f *Files) readFile(path string) ([]byte, error) {
	flags := os.O_RDONLY
	if !f.once {
		flags |= syscall.O_NONBLOCK
	}
	file, err := os.OpenFile(path, flags, 0) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err == nil && !f.once && !info.Mode().IsRegular() && !info.IsDir() {
		err = fmt.Errorf("%s is not a regular file any more", path)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, err
}

// isPipe reports whether a path is not a regular file, so that a second read would wait
// for a writer or find nothing.
func isPipe(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

func (f *Files) shown() string { return strings.Join(f.paths, ", ") }

// trimmed returns the text of a file without surrounding space and without a byte order
// mark, which some editors write.
func trimmed(data []byte) string {
	return string(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))))
}
