package filewatch

import (
	"os"
	"path/filepath"
)

// maxLinks bounds how many links are resolved, because links may form a cycle.
const maxLinks = 32

// linkFolders returns the folders of all links on the way to a path. Replacing such a
// link changes the target of the path without a change in the target's folder.
func linkFolders(path string) (folders []string) {
	for waiting := []string{path}; len(waiting) > 0 && len(folders) < maxLinks; waiting = waiting[1:] {
		at, err := filepath.Abs(waiting[0])
		if err != nil {
			continue
		}
		for ; at != filepath.Dir(at); at = filepath.Dir(at) {
			target, err := os.Readlink(at)
			if err != nil {
				continue // no link
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			folders = append(folders, filepath.Dir(at))
			waiting = append(waiting, target)
		}
	}
	return folders
}

// awaitedFolder returns the folder in which the target of a path's links would appear, if
// the target does not exist.
func awaitedFolder(path string) string {
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil {
			break // no link
		}
		if !filepath.IsAbs(target) {
			folder, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				break
			}
			target = filepath.Join(folder, target)
		}
		path = target
	}
	return filepath.Dir(path)
}
