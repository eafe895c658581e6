package rulelimit

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// pollInterval is the time between two reads of the watched files.
const pollInterval = 500 * time.Millisecond

// Watch returns a decider by the rules of a file, or of a folder as [rule.Load] reads it,
// that store counts for. It returns an error if the rules have mistakes, are not
// supported, or do not exist. Changed rules are in force about a second after the last
// write, until ctx ends; the decider then stays with the rules that it has.
//
// Rules with mistakes, files that cannot be read, and files that have become empty are
// rejected as a whole: the previous rules stay in force, the reason is logged once, and
// [Decider.Status] reports it.
//
// Watch reads the files twice a second and compares their contents. It therefore notices
// every way to change them: writes in place, renames, links that are replaced as in a
// mounted ConfigMap, and changes on network file systems, which send no notifications. A
// read of a few files takes some ten microseconds.
func Watch(ctx context.Context, path string, store stint.Store, o Options) (*Decider, error) {
	d, err := newDecider(store, o)
	if err != nil {
		return nil, err
	}
	w := &watcher{decider: d, path: path}
	w.read()
	if err := w.apply(); err != nil {
		return nil, err
	}
	go w.run(ctx)
	return d, nil
}

// watcher applies the content of files to a decider. Only its goroutine uses it.
//
// It polls: a library must not bring a dependency and the limited watches of the kernel
// into every program, and some file systems notify nobody. The server, which has other
// files to watch too and applies changes within 100 ms, has a watcher by notifications.
//
// A program may write a file in several steps, and the content in between may be valid
// rules, but with fewer limits. A content is therefore applied only if the next read
// finds the same: it is settled.
type watcher struct {
	decider *Decider
	path    string

	inForce []rule.File // the content that came into force last
	number  int         // the Status.Number of its rules
	files   []rule.File // the content of the last read
	err     error       // the error of the last read
	applied bool        // the last read has been applied or rejected
}

func (w *watcher) run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.poll()
		}
	}
}

// poll reads the files, and applies a change that has settled.
func (w *watcher) poll() {
	if w.read() || w.applied {
		return
	}
	if err := w.apply(); err != nil {
		w.decider.options.Logger.Error("rules rejected; the previous version stays in force", "path", w.path, "error", err)
	}
}

// read reads the files, and reports whether they differ from the last read.
func (w *watcher) read() (changed bool) {
	files, err := rule.ReadFiles(w.path)
	if same(files, w.files) && text(err) == text(w.err) {
		return false
	}
	w.files, w.err, w.applied = files, err, false
	return true
}

// apply puts the content of the last read in force, or rejects it.
func (w *watcher) apply() error {
	d := w.decider
	d.changing.Lock()
	defer d.changing.Unlock()
	w.applied = true
	if w.err == nil && w.number > 0 && w.number == d.Status().Number && same(w.files, w.inForce) {
		d.rejectLocked(nil)
		d.options.Logger.Info("rules: the files hold the rules in force again", "path", w.path)
		return nil
	}
	set, err := w.parse()
	if err != nil {
		d.rejectLocked(err)
		return err
	}
	if err := d.useLocked(set); err != nil {
		return err
	}
	w.inForce, w.number = w.files, d.Status().Number
	return nil
}

// parse returns the rule set of the last read.
func (w *watcher) parse() (*rule.Set, error) {
	if w.err != nil {
		return nil, w.err
	}
	if len(w.files) == 0 && w.inForce == nil {
		return nil, rule.Problems{{File: w.path, What: "holds no *.yaml, *.yml or *.json", Mend: "name the folder of the rules"}}
	}
	if err := rule.CheckEmptied(w.path, w.inForce, w.files); err != nil {
		return nil, err
	}
	return rule.Parse(w.files...)
}

func same(a, b []rule.File) bool {
	return slices.EqualFunc(a, b, func(a, b rule.File) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
