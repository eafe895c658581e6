package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/cmd/stint/internal/replayhtml"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/rule"
)

// htmlOutput is the output of --html. A page is written to a hidden file beside the final one and
// renamed, so that readers find either the old page or the new one.
type htmlOutput struct {
	page io.Writer // nil: no page is asked for
	temp *os.File  // nil: standard output
	path string
}

// openHTML opens the output of --html before the replay starts, which can take minutes.
func (f *replayFlags) openHTML(stdout io.Writer, in *replayInputs) (htmlOutput, error) {
	path := f.html
	switch {
	case path == "":
		return htmlOutput{}, nil
	case path == "-" && f.decisions == "-":
		return htmlOutput{}, usagef("--html: standard output has the decisions (name a file for one of the two)")
	case path == "-":
		return htmlOutput{page: stdout}, nil
	case in.contains(path):
		return htmlOutput{}, usagef("--html: %s is an input (name another file)", path)
	case f.decisions != "" && filepath.Clean(path) == filepath.Clean(f.decisions):
		return htmlOutput{}, usagef("--html: %s is the file of --decisions (name another file)", path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return htmlOutput{}, usagef("--html: %s is not a file (name a file, such as report.html)", path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".stint-*.tmp")
	if err != nil {
		return htmlOutput{}, fmt.Errorf("html: %w (name a file in a folder that can be written to)", err)
	}
	return htmlOutput{page: temp, temp: temp, path: path}, nil
}

// write writes the page.
func (h *htmlOutput) write(p *replayhtml.Page) error {
	if h.page == nil {
		return nil
	}
	err := replayhtml.Write(h.page, p)
	if h.temp != nil && err == nil {
		err = errors.Join(h.temp.Sync(), h.temp.Close())
		if err == nil {
			err = os.Rename(h.temp.Name(), h.path)
		}
	}
	if err != nil {
		return fmt.Errorf("html: %w", err)
	}
	h.temp = nil
	return nil
}

// discard removes a page that was not written.
func (h *htmlOutput) discard() {
	if h.temp != nil {
		h.temp.Close()
		_ = os.Remove(h.temp.Name())
	}
}

// page returns what the page of a replay shows.
func (f *replayFlags) page(report *replay.Report, o *replay.Options, args []string) *replayhtml.Page {
	p := &replayhtml.Page{Report: report, By: f.by, ShowKeys: o.ShowKeys}
	for _, name := range args {
		if name == "-" {
			name = "standard input"
		}
		p.Inputs = append(p.Inputs, name)
	}
	if o.Rules == nil {
		p.Limit = o.Limit.String()
		return p
	}
	add := func(name string, set *rule.Set) {
		p.Rules = append(p.Rules, replayhtml.RuleSet{Name: name, Rules: ruleedit.InWords(set)})
	}
	add(f.rulesName, o.Rules)
	if o.Against != nil {
		add(o.AgainstName, o.Against)
	}
	return p
}
