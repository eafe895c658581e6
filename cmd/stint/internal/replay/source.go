package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// Input is one recording of traffic. Input that starts with the gzip signature
// is decompressed, whatever its name.
type Input struct {
	Name   string // used in messages
	Reader io.Reader
}

// batch holds the events of one block.
type batch struct {
	events []event
	bad    badLines
	line   int64 // the last line that was read
	err    error // io.EOF or the read error that follows the events
}

// reading configures how lines become events. It is the same for every input.
type reading struct {
	format Format
	span   span
	by     *byTally // replaying a limit: the attribute to count by
	log    *logTally
}

// span is the part of the traffic that is decided, in microseconds. Events
// outside of it are counted, and left out.
type span struct {
	since, until int64 // since is included, until is not
	outside      *atomic.Int64
}

func newSpan(since, until time.Time) span {
	s := span{0, maxTime + 1, new(atomic.Int64)}
	if !since.IsZero() {
		s.since = since.UnixMicro()
	}
	if !until.IsZero() {
		s.until = until.UnixMicro()
	}
	return s
}

func (s *span) contains(t int64) bool {
	if s.since <= t && t < s.until {
		return true
	}
	s.outside.Add(1)
	return false
}

// source reads one input ahead in its own goroutine.
type source struct {
	reading
	input   Input
	number  int // number of the input, from 0
	batches chan *batch
	spare   chan *batch
	done    <-chan struct{} // closed when the rest is no longer needed
	bytes   atomic.Int64    // bytes read so far

	// Used only by the reading goroutine.
	line    int64
	lines   lineReader
	scratch fields
	keys    *keyCache

	// Used only by the merging goroutine.
	current *batch
	next    int   // index in current.events
	newest  int64 // greatest time up to and including the next event
	ended   bool
	err     error // why the input could not be read on
}

func newSource(how reading, input Input, number int) *source {
	return &source{reading: how, input: input, number: number, lines: lineReader{format: how.format}, keys: newKeyCache(), batches: make(chan *batch), spare: make(chan *batch, 2)}
}

// run reads until the input ends or ctx is done.
func (s *source) run(ctx context.Context) {
	in, err := s.open()
	if err != nil {
		s.send(ctx, &batch{err: err})
		return
	}
	blocks := newBlockReader(in)
	for more := true; more; {
		out := s.emptyBatch()
		text, err := blocks.next()
		if err == nil {
			s.readBlock(out, text)
		}
		out.line, out.err = s.line, err
		more = s.send(ctx, out) && err == nil
	}
}

func (s *source) send(ctx context.Context, b *batch) bool {
	select {
	case s.batches <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// open detects gzip and removes a byte order mark.
func (s *source) open() (io.Reader, error) {
	in := bufio.NewReaderSize(countingReader{s.input.Reader, &s.bytes}, blockSize)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(unpacked, blockSize)
	}
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark)) // cannot fail: the bytes are buffered
	}
	return in, nil
}

type countingReader struct {
	in io.Reader
	n  *atomic.Int64
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.n.Add(int64(n))
	return n, err
}

func (s *source) emptyBatch() *batch {
	select {
	case b := <-s.spare:
		b.events, b.bad = b.events[:0], badLines{}
		return b
	default:
		return &batch{}
	}
}

func (s *source) readBlock(out *batch, b block) {
	if b.tooLong {
		s.line++
		out.bad.add(BadLine{s.input.Name, s.line, fmt.Sprintf("is longer than %d bytes", maxLine)})
		return
	}
	for rest := b.text; rest != ""; {
		var line string
		line, rest = cutLine(rest)
		s.line++
		s.readLine(out, line)
	}
}

func (s *source) readLine(out *batch, line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	e := event{line: s.line}
	decide, err := s.readEvent(&e, line)
	if err != nil {
		out.bad.add(BadLine{s.input.Name, s.line, err.Error()})
		return
	}
	if decide {
		out.events = append(out.events, e)
	}
}

// readEvent sets the event of a line, and reports whether the replay decides it.
// When a limit is replayed, it keeps only the identity. Rules may read any
// attribute later, so it keeps the whole line for them.
func (s *source) readEvent(e *event, line string) (decide bool, err error) {
	if s.scratch, err = s.lines.read(line, s.scratch[:0], e); err != nil {
		return false, err
	}
	if !s.span.contains(e.t) {
		if s.scratch.isLog() {
			if l, err := s.scratch.logLine(); err == nil {
				s.log.pass(&l, s, e.t)
			}
		}
		return false, nil
	}
	by := s.by.by
	if s.scratch.isLog() {
		if decide, err := s.readDecision(e); !decide {
			return false, err
		}
		if by == "key" { // it is shortened: several callers may have the same
			by = "id"
		}
	}
	e.raw = line
	if by == "" {
		e.text = line
		return true, nil
	}
	value, _ := s.scratch.attribute(by)
	if value == "" {
		s.by.miss(s.format, line, s.scratch)
		key, err := substitute(s.scratch)
		e.text = s.keys.own(key)
		return err == nil, err
	}
	s.by.see()
	e.text = s.keys.own(identity(by, value))
	return true, stint.ValidateKey(e.text)
}

// readDecision reads a line of a decision log, and reports whether the replay
// decides it. Its limit is the one that decided, and no change.
func (s *source) readDecision(e *event) (decide bool, err error) {
	l, err := s.scratch.logLine()
	if err != nil {
		return false, err
	}
	e.limit, e.caller = "", max(1, maphash.String(s.log.seed, s.scratch.caller()))
	return s.log.add(&l, s, e.t, s.by.by == ""), nil
}

// peek returns the next event, or nil at the end of the input. It adds the bad
// lines before the event to bad.
func (s *source) peek(bad *badLines) *event {
	for s.current == nil || s.next == len(s.current.events) {
		if s.ended {
			return nil
		}
		s.advance(bad)
	}
	e := &s.current.events[s.next]
	s.newest = max(s.newest, e.t)
	return e
}

// advance moves to the next batch.
func (s *source) advance(bad *badLines) {
	if s.current != nil {
		s.recycle()
	}
	var next *batch
	select {
	case next = <-s.batches: // nil at the end
	case <-s.done: // a blocked input may never send
	}
	if next == nil {
		s.ended = true
		return
	}
	s.current = next
	bad.addAll(&next.bad)
	if next.err != nil && !errors.Is(next.err, io.EOF) {
		s.err = fmt.Errorf("%s: only %d lines could be read: %w", s.input.Name, next.line, next.err)
	}
}

func (s *source) recycle() {
	select {
	case s.spare <- s.current:
	default:
	}
	s.current, s.next = nil, 0
}
