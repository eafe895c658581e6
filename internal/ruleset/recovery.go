package ruleset

import (
	"time"

	"github.com/stintdev/stint/rule"
)

// settleLocked puts the files of a folder in place, which are published already:
// that it cannot, as on a full disk, is no reason to tell their author otherwise.
func (f *Files) settleLocked(d folder, files []rule.File) {
	if err := d.settle(files); err != nil {
		f.log.Error("rules: a version is published and in force, but its files cannot be put in place; until they are, edits in the folder do not count", "error", err)
		f.lookLaterLocked(d)
	}
}

// lookLaterLocked has the folder read again while there is a pending version in
// it, once it is old enough to be put in place by whoever reads it: left for long,
// it would take the place of what somebody edits later.
func (f *Files) lookLaterLocked(d folder) {
	if _, pending := d.since(); !pending || f.later {
		return
	}
	f.later = true
	time.AfterFunc(leftBehind+time.Second, func() {
		f.mu.Lock()
		f.later = false
		f.mu.Unlock()
		f.disturbed()
	})
}
