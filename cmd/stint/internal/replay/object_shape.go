package replay

import (
	"strings"

	"github.com/stintdev/stint/rule"
)

// lineReader reads the lines of one goroutine. It is a [Format] that knows the shape of the lines
// before.
type lineReader struct {
	format Format
	shape  objectShape
}

// fields is fields of [Format].
func (r *lineReader) fields(line string, all fields) (fields, int64, error) {
	if read, ok := r.shape.read(line, all); ok {
		return read, -1, nil
	}
	all, t, err := r.format.fields(line, all)
	if err == nil && t < 0 {
		r.shape.learn(line)
	}
	return all, t, err
}

// read appends the fields of a line and sets the time and the cost of its event.
func (r *lineReader) read(line string, all fields, e *event) (fields, error) {
	all, t, err := r.fields(line, all)
	if err != nil {
		return all, err
	}
	return all, e.read(all, t)
}

// objectShape is the text around the values of a line that is a JSON object. The lines of a log
// mostly have the same members in the same order. Such a line is read by comparing this text and
// scanning only the values, with the same result as readObject. The zero value matches no line.
type objectShape struct {
	members []shapeMember
	end     string
	misses  int // number of lines of other shapes
}

// shapeMember is a member and the text before its value, from the value before.
type shapeMember struct {
	before string
	name   string
	kind   fieldKind
}

// learnEvery is the number of lines of other shapes until the next one is learned. Learning takes as
// long as reading.
const learnEvery = 16

// read is scanObject for lines of the shape. The kinds of the values are those of the learned line.
func (s *objectShape) read(line string, f fields) (fields, bool) {
	if len(s.members) == 0 {
		return f, false
	}
	in := scanner{text: line}
	for i := range s.members {
		m := &s.members[i]
		if !strings.HasPrefix(line[in.at:], m.before) {
			return f, false
		}
		in.at += len(m.before)
		f = append(f, field{name: m.name})
		if read := &f[len(f)-1]; !in.value(read) || read.kind != m.kind {
			return f, false
		}
	}
	return f, line[in.at:] == s.end
}

// learn makes the shape that of a line, unless it learned another one a few lines before. A line that
// only encoding/json reads has no shape.
func (s *objectShape) learn(line string) {
	if s.misses++; s.misses%learnEvery != 1 {
		return
	}
	line = strings.Clone(line) // it is part of a block
	in, end, members := scanner{text: line}, 0, []shapeMember(nil)
	for more := in.symbol('{'); more; more = in.symbol(',') {
		name, ok := in.name()
		before := line[end:in.at]
		var read field
		if !ok || !in.value(&read) {
			return
		}
		end = in.at
		members = append(members, shapeMember{before, rule.AttributeName(name), read.kind})
	}
	if in.symbol('}') && in.ended() {
		s.members, s.end = members, line[end:]
	}
}
