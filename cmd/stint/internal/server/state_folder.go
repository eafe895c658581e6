package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Every rule source that servers of this machine ever had leaves a folder in the state
// folder: a test or a deployment with a path of its own for each start would fill the disk.
// So a starting server removes the folders that were unused for the longest time, and keeps
// maxStateFolders. It never removes the folder of a server that runs: a server holds a lock
// on its folder (see lockFolder), and touches it every touchInterval.
const (
	maxStateFolders = 16
	touchInterval   = time.Hour
)

// stateFolderNames matches the names of the folders of rule sources.
var stateFolderNames = regexp.MustCompile(`^rules-[0-9a-f]{16}$`)

// stateFolder is the folder for the state of one rule source. The zero value is that of a
// server without a state folder.
type stateFolder struct {
	path   string
	locked *os.File // nil: it could not be locked
}

// openStateFolder opens the folder of a rule source in dir, and removes old folders of
// others. The name contains a hash of the source, so servers with different sources can
// share dir. It returns the zero value if dir is empty.
func openStateFolder(dir, source string, log *slog.Logger) stateFolder {
	if dir == "" {
		return stateFolder{}
	}
	sum := sha256.Sum256([]byte(source))
	f := stateFolder{path: filepath.Join(dir, "rules-"+hex.EncodeToString(sum[:8]))}
	f.hold()
	if removed := removeOldFolders(dir, f.path, maxStateFolders); removed > 0 {
		log.Info("removed the state of rule sources that no server uses", "dir", dir, "folders", removed)
	}
	return f
}

// hold makes, touches and locks the folder. A failure is not reported here: whatever writes
// to the folder reports it. Another server may remove the folder between its making and the
// lock, which then holds a folder without a name, and so hold tries again.
func (f *stateFolder) hold() {
	for range maxStateFolders {
		if os.MkdirAll(f.path, 0o700) != nil {
			return
		}
		f.touch()
		file, err := lockFolder(f.path, false)
		if err != nil {
			continue
		}
		if f.locked = file; file == nil || sameFolder(file, f.path) {
			return
		}
		f.close()
	}
}

// sameFolder reports whether a path still names an open folder.
func sameFolder(open *os.File, path string) bool {
	held, err := open.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(held, named)
}

func (f *stateFolder) touch() {
	now := time.Now()
	_ = os.Chtimes(f.path, now, now)
}

// keep touches the folder until ctx ends, and then gives up its lock.
func (f *stateFolder) keep(ctx context.Context) {
	if f.path == "" {
		return
	}
	defer f.close()
	for tick := time.Tick(touchInterval); ; f.touch() {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

func (f *stateFolder) close() {
	if f.locked != nil {
		_ = f.locked.Close()
		f.locked = nil
	}
}

// removeOldFolders removes folders of rule sources, those touched the longest time ago
// first, until at most the given number is left or all others are in use. It returns the
// number of folders that it removed.
func removeOldFolders(dir, own string, most int) (removed int) {
	folders := stateFolders(dir)
	for _, f := range folders {
		if len(folders)-removed <= most {
			break
		}
		if f.path != own && removeUnused(f.path, f.touched) {
			removed++
		}
	}
	return removed
}

type touchedFolder struct {
	path    string
	touched time.Time
}

// stateFolders returns the folders of rule sources in dir, the oldest first.
func stateFolders(dir string) (folders []touchedFolder) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && stateFolderNames.MatchString(e.Name()) {
			folders = append(folders, touchedFolder{filepath.Join(dir, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(folders, func(a, b touchedFolder) int { return a.touched.Compare(b.touched) })
	return folders
}

// removeUnused removes a folder unless a server uses it.
func removeUnused(path string, touched time.Time) bool {
	if !folderLocks && time.Since(touched) < unusedAfter {
		return false
	}
	held, err := lockFolder(path, true)
	if err != nil {
		return false
	}
	if held != nil {
		defer held.Close()
	}
	return os.RemoveAll(path) == nil
}

// unusedAfter is how long no server has touched a folder that counts as unused, on systems
// without locks of folders.
const unusedAfter = 7 * 24 * time.Hour
