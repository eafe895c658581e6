package replay

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// findGaps notes the minutes that a decision log lacks before its events are read. The line that
// shows a gap comes behind it. If the log has lines of several servers, there may be hours of events
// between, which cannot wait for it.
//
// An input that cannot be read twice, such as a pipe, is not searched. Its gaps are found while
// its events are read.
func (s *source) findGaps(ctx context.Context) error {
	file, ok := s.input.Reader.(io.Seeker)
	if !ok {
		return nil
	}
	start, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil //nolint:nilerr // a pipe
	}
	s.scanGaps(ctx)
	if _, err = file.Seek(start, io.SeekStart); err != nil {
		return fmt.Errorf("%s: cannot be read from its beginning: %w", s.input.Name, err)
	}
	return nil
}

// scanGaps reads the whole input if its first block is of a decision log. The reading of the events
// reports errors.
func (s *source) scanGaps(ctx context.Context) {
	in, err := s.open()
	if err != nil {
		return
	}
	blocks := newBlockReader(in)
	for first := true; ctx.Err() == nil; first = false {
		b, err := blocks.next()
		if err != nil || first && !strings.Contains(b.text, `"sample_rate"`) {
			return
		}
		for rest := b.text; ; {
			at := strings.Index(rest, `"dropped_since_us"`)
			if at < 0 {
				break
			}
			var line string
			line, rest = cutLine(rest[strings.LastIndexByte(rest[:at], '\n')+1:])
			s.noteGap(line)
		}
	}
}

// noteGap notes the gap before a line. A line that cannot be read shows none.
func (s *source) noteGap(line string) {
	var e event
	read, err := s.lines.read(line, s.scratch[:0], &e)
	if s.scratch = read; err != nil || !read.isLog() {
		return
	}
	if l, err := read.logLine(); err == nil && l.dropped > 0 && l.since > 0 {
		s.log.foresee(gap{l.since / minute, e.t / minute}, &s.span)
	}
}
