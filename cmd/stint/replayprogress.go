package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// progressLine shows on a terminal how far a replay has come. Without a
// terminal it shows nothing.
type progressLine struct {
	terminal io.Writer // nil: none
	size     int64     // of all inputs, in bytes; 0: not known
	start    time.Time
	shown    time.Time
}

func newProgressLine(out io.Writer, size int64) *progressLine {
	now := time.Now()
	p := &progressLine{size: size, start: now, shown: now}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.terminal = out
	}
	return p
}

// show writes the line anew, twice a second at most.
func (p *progressLine) show(at replay.Progress) {
	now := time.Now()
	if p.terminal == nil || now.Sub(p.shown) < time.Second/2 {
		return
	}
	p.shown = now
	_, _ = fmt.Fprint(p.terminal, clearLine, p.text(at, now.Sub(p.start)))
}

// clear leaves the line empty for what comes next.
func (p *progressLine) clear() {
	if p.terminal != nil && p.shown != p.start {
		_, _ = fmt.Fprint(p.terminal, clearLine)
	}
}

// clearLine goes to the start of the terminal's line and empties it.
const clearLine = "\r\x1b[K"

func (p *progressLine) text(at replay.Progress, spent time.Duration) string {
	text := fmt.Sprintf("%d events, %.1f MB", at.Events, float64(at.Bytes)/1e6)
	if p.size > 0 {
		text += fmt.Sprintf(" of %.1f MB (%d %%)", float64(p.size)/1e6, 100*at.Bytes/p.size)
	}
	return text + fmt.Sprintf(", %.0f events a second", float64(at.Events)/spent.Seconds())
}
