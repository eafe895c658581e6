package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// replayInputs are the opened inputs of a replay.
type replayInputs struct {
	named []replay.Input
	files []*os.File
	size  int64 // size of all inputs, in bytes; 0: unknown
}

// openInputs opens all inputs before the first is read, so that a wrong name at
// the end of a long list is found at once.
func openInputs(names []string, stdin io.Reader) (*replayInputs, error) {
	in := &replayInputs{}
	known := true
	for i, name := range names {
		if name == "-" {
			if slices.Contains(names[:i], name) {
				in.close()
				return nil, usagef("input: - is standard input, which can be read once (remove the second)")
			}
			in.named = append(in.named, replay.Input{Name: "standard input", Reader: stdin})
			known = false
			continue
		}
		regular, err := in.open(name)
		if err != nil {
			in.close()
			return nil, err
		}
		known = known && regular
	}
	if !known {
		in.size = 0
	}
	return in, nil
}

func (in *replayInputs) open(name string) (regular bool, err error) {
	file, err := os.Open(name) //nolint:gosec // the user names the files to read
	if err != nil {
		return false, fmt.Errorf("input: %w", err)
	}
	in.files = append(in.files, file)
	in.named = append(in.named, replay.Input{Name: name, Reader: file})
	info, err := file.Stat()
	if err != nil {
		return false, fmt.Errorf("input: %w", err)
	}
	if info.IsDir() {
		return false, usagef("input: %s is a folder (name the files in it)", name)
	}
	in.size += info.Size()
	return info.Mode().IsRegular(), nil
}

func (in *replayInputs) close() {
	for _, file := range in.files {
		file.Close()
	}
}

// contains reports whether the file at path is one of the inputs.
func (in *replayInputs) contains(path string) bool {
	target, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, file := range in.files {
		if info, err := file.Stat(); err == nil && os.SameFile(info, target) {
			return true
		}
	}
	return false
}

// decisionsOutput is the output of --decisions. Without the flag its Writer is
// nil.
type decisionsOutput struct {
	io.Writer
	file *os.File // nil: nothing to close
}

func (f *replayFlags) openDecisions(stdout io.Writer, in *replayInputs) (decisionsOutput, error) {
	switch {
	case f.decisions == "":
		return decisionsOutput{}, nil
	case f.decisions == "-":
		return decisionsOutput{Writer: stdout}, nil
	case in.contains(f.decisions):
		return decisionsOutput{}, usagef("--decisions: %s is an input (name another file)", f.decisions)
	}
	file, err := os.Create(f.decisions)
	if err != nil {
		return decisionsOutput{}, fmt.Errorf("decisions: %w", err)
	}
	return decisionsOutput{file, file}, nil
}

func (d decisionsOutput) close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

// printNothingRead says why a report is empty. It prints nothing if there are events.
func printNothingRead(out io.Writer, events, outside, unreadable int64) {
	switch {
	case events > 0:
	case outside > 0:
		fmt.Fprintf(out, "nothing was read: no event is within --since and --until, and %d are outside\n", outside)
	case unreadable == 0: // lines that cannot be read are printed
		fmt.Fprintln(out, "nothing was read: the inputs have no lines (check their names, and that logging is on)")
	}
}

// printLate warns of a recording with many events that are decided after newer ones. One line with a
// time far ahead is enough: nothing after it is put in order.
func printLate(out io.Writer, late, events, newest int64) {
	if late*leastLate <= events {
		return
	}
	fmt.Fprintf(out, `warning: %d of %d events are late, so more of them are denied
  why: a time before them in the recording is more than --reorder ahead (the last time is %s)
  mend: give the files of a rotated log as separate arguments, leave wrong times out with --until, or raise --reorder
`, late, events, replay.TimeText(newest))
}

// leastLate is the reciprocal of the share of late events that printLate does not warn of.
const leastLate = 100

// printBadLines prints the first unreadable lines, and the number of all others.
func printBadLines(out io.Writer, first []replay.BadLine, all int64) {
	for _, bad := range first {
		fmt.Fprintf(out, "%s:%d: %s\n", bad.Input, bad.Line, bad.Reason)
	}
	if more := all - int64(len(first)); more > 0 {
		fmt.Fprintf(out, "and %d more unreadable lines\n", more)
	}
}

// progressLine shows the progress of a replay on a terminal. Without a terminal
// it shows nothing.
type progressLine struct {
	terminal io.Writer // nil: no terminal
	size     int64     // size of all inputs, in bytes; 0: unknown
	start    time.Time
	shown    time.Time
}

func newProgressLine(out io.Writer, size int64) *progressLine {
	now := time.Now()
	p := &progressLine{size: size, start: now, shown: now}
	if isTerminal(out) {
		p.terminal = out
	}
	return p
}

// show rewrites the line, at most twice a second.
func (p *progressLine) show(at replay.Progress) {
	now := time.Now()
	if p.terminal == nil || now.Sub(p.shown) < time.Second/2 {
		return
	}
	p.shown = now
	_, _ = fmt.Fprint(p.terminal, clearLine, p.text(at, now.Sub(p.start)))
}

// clear empties the line for the next output.
func (p *progressLine) clear() {
	if p.terminal != nil && p.shown != p.start {
		_, _ = fmt.Fprint(p.terminal, clearLine)
	}
}

// clearLine moves the cursor to the start of the line and empties the line.
const clearLine = "\r\x1b[K"

func (p *progressLine) text(at replay.Progress, spent time.Duration) string {
	text := fmt.Sprintf("%d events, %.1f MB", at.Events, float64(at.Bytes)/1e6)
	if p.size > 0 {
		text += fmt.Sprintf(" of %.1f MB (%d %%)", float64(p.size)/1e6, 100*at.Bytes/p.size)
	}
	return text + fmt.Sprintf(", %.0f events a second", float64(at.Events)/spent.Seconds())
}
