package filewatch

import (
	"os"
	"path/filepath"
)

// maxLinks bounds how many links are followed: they may go around.
const maxLinks = 32

// linkFolders are the folders of the links on the way to a path, whatever
// those stand for: who puts another link in their place changes what the path
// means, and nothing in the folders of its end.
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

// awaitedFolder is where the file would have to come that a path links to, when it
// is not there.
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
