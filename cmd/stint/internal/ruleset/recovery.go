package ruleset

import (
	"time"

	"github.com/stintdev/stint/rule"
)

// settleLocked writes the files of a folder whose version is already published.
// A failed write, for example on a full disk, does not undo the publish; it is
// logged and retried.
func (f *Files) settleLocked(d folder, files []rule.File) {
	if err := d.settle(files); err != nil {
		f.log.Error("rules: a version is published and in force, but its files cannot be put in place; until they are, edits in the folder do not count", "error", err)
		f.checkLaterLocked(d)
	}
}

// checkLaterLocked schedules another read of a folder with a pending version,
// for the time when a reader may settle it. Without that read, an abandoned
// pending version could replace later edits of the files.
func (f *Files) checkLaterLocked(d folder) {
	if _, pending := d.since(); !pending || f.scheduled {
		return
	}
	f.scheduled = true
	time.AfterFunc(leftBehind+time.Second, func() {
		f.mu.Lock()
		f.scheduled = false
		f.mu.Unlock()
		f.markStale()
	})
}
