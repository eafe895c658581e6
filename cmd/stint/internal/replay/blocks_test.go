package replay

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// blocksOf reads an input to its end. A line that was too long appears as "?".
func blocksOf(t *testing.T, in io.Reader) (lines []string, err error) {
	t.Helper()
	r := newBlockReader(in)
	for {
		b, err := r.next()
		if err != nil {
			return lines, err
		}
		if b.tooLong {
			lines = append(lines, "?")
		}
		for rest := b.text; rest != ""; {
			var line string
			line, rest = cutLine(rest)
			lines = append(lines, line)
		}
	}
}

func TestBlockReader(t *testing.T) {
	longest := strings.Repeat("x", maxLine)
	for name, test := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":                    {"", nil},
		"lastLineWithoutNewline":     {"a\nb", []string{"a", "b"}},
		"carriageReturnsAreDropped":  {"a\r\nb\r\n", []string{"a", "b"}},
		"emptyLinesCount":            {"\n\na\n", []string{"", "", "a"}},
		"longestLine":                {"a\n" + longest + "\nb\n", []string{"a", longest, "b"}},
		"longestLineAtTheEnd":        {longest, []string{longest}},
		"oneByteTooLong":             {"a\n" + longest + "x\nb\n", []string{"a", "?", "b"}},
		"tooLongAtTheEnd":            {"a\n" + longest + longest + "y", []string{"a", "?"}},
		"tooLongTwice":               {longest + longest + "\n" + longest + "xx\nb", []string{"?", "?", "b"}},
		"lineAcrossBlocks":           {strings.Repeat("a", blockSize-1) + "\n" + strings.Repeat("b", blockSize) + "\nc", []string{strings.Repeat("a", blockSize-1), strings.Repeat("b", blockSize), "c"}},
		"newlineEndsTheBlockExactly": {strings.Repeat("a", blockSize) + "\nb", []string{strings.Repeat("a", blockSize), "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(test.in), iotest.HalfReader(strings.NewReader(test.in)), iotest.DataErrReader(strings.NewReader(test.in))} {
				got, err := blocksOf(t, in)
				if !errors.Is(err, io.EOF) || !slices.Equal(got, test.want) {
					t.Fatalf("got %d lines %.60q and %v, want %d lines %.60q", len(got), got, err, len(test.want), test.want)
				}
			}
		})
	}
}

// The lines of a pipe do not wait for a full buffer.
func TestBlockReaderPassesOnWhatAPipeHas(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	go func() { _, _ = io.WriteString(out, "a\nb\nhalf of") }() // the pipe stays open
	if b, err := newBlockReader(in).next(); err != nil || b.text != "a\nb\n" {
		t.Errorf("got %q and %v", b.text, err)
	}
}

// A line that a failed read may have truncated is not returned.
func TestBlockReaderGivesWholeLinesBeforeAnError(t *testing.T) {
	broken := errors.New("broken")
	got, err := blocksOf(t, io.MultiReader(strings.NewReader("a\nb\nhalf of"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q and %v", got, err)
	}
}

func TestBlockReaderHoldsNoMoreThanOneLongestLine(t *testing.T) {
	r := newBlockReader(io.LimitReader(endless{}, 64<<20))
	if b, err := r.next(); err != nil || !b.tooLong {
		t.Fatalf("got %v, %v; want a line that is too long", b.tooLong, err)
	}
	if len(r.buf) > maxLine+1 {
		t.Errorf("holds %d bytes, want at most %d", len(r.buf), maxLine+1)
	}
}

// endless is an input of one infinite line.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
