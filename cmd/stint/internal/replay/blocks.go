package replay

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 1 << 20

// blockSize is the greatest size of one read. It is small because every input holds a
// few blocks, and a year of rotated logs is hundreds of inputs.
const blockSize = 64 << 10

// block is a piece of an input that ends at a line end.
type block struct {
	text    string // whole lines; the last one of the input may lack its newline
	tooLong bool   // text is empty because one line longer than maxLine was skipped
}

// blockReader cuts an input into blocks. Each block has a string of its own, so
// parts of it can be kept without a copy.
type blockReader struct {
	in       io.Reader
	buf      []byte // its length bounds the bytes held at once
	held     int    // bytes of buf that were read but not returned yet
	skipping bool   // inside a line that is too long
	err      error  // error of the last read; no more bytes follow those held
}

func newBlockReader(in io.Reader) *blockReader {
	return &blockReader{in: in, buf: make([]byte, blockSize)}
}

// next returns the next block, or io.EOF at the end, or the error of the input.
// It returns every complete line before an error first.
func (r *blockReader) next() (block, error) {
	for {
		r.fill()
		end := bytes.LastIndexByte(r.buf[:r.held], '\n') + 1
		switch {
		case r.skipping:
			if r.skip() {
				return block{tooLong: true}, nil
			}
		case end > 0:
			return block{text: r.take(end)}, nil
		case r.err != nil:
			return r.last()
		case len(r.buf) <= maxLine:
			r.grow()
		default:
			r.skipping = true
		}
	}
}

// fill reads until the buffer is full, the input ends, or it has no more for now and a line is
// whole. So the lines of a slow pipe do not wait for a full buffer.
func (r *blockReader) fill() {
	for r.held < len(r.buf) && r.err == nil {
		free := r.buf[r.held:]
		n, err := r.in.Read(free)
		r.held, r.err = r.held+n, err
		if n < len(free) && bytes.IndexByte(free[:n], '\n') >= 0 {
			return
		}
	}
}

// last returns a last line without a newline. After a failed read the line may
// be incomplete and is dropped.
func (r *blockReader) last() (block, error) {
	if r.held == 0 || !errors.Is(r.err, io.EOF) {
		return block{}, r.err
	}
	return block{text: r.take(r.held)}, nil
}

// skip drops the held part of a line that is too long, up to its newline. It
// reports whether the line has ended.
func (r *blockReader) skip() bool {
	end := bytes.IndexByte(r.buf[:r.held], '\n') + 1
	ended := end > 0 || r.err != nil
	if end == 0 {
		end = r.held
	}
	r.drop(end)
	r.skipping = !ended
	return ended
}

func (r *blockReader) take(n int) string {
	text := string(r.buf[:n])
	r.drop(n)
	return text
}

func (r *blockReader) drop(n int) { r.held = copy(r.buf, r.buf[n:r.held]) }

// grow enlarges the buffer, up to one line of maxLine and its newline.
func (r *blockReader) grow() {
	larger := make([]byte, min(2*len(r.buf), maxLine+1))
	copy(larger, r.buf[:r.held])
	r.buf = larger
}

// cutLine returns the first line without its line ending, and the rest.
func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}
