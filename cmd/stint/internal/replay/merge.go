package replay

import "context"

// merger returns the events of several inputs as one recording. It always reads
// from the input with the lowest newest time. No input then runs ahead of the
// others by more than its own next event, and each input keeps its order.
type merger struct {
	sources []*source
	bad     badLines
	current *source
	rival   *source // the input to read from after current; nil: none
}

// startMerger starts a goroutine for each input. The goroutines end when ctx
// does, but a goroutine that is blocked in a read ends only when the read
// returns.
func startMerger(ctx context.Context, how reading, fails *panics, inputs []Input) *merger {
	m := &merger{}
	for i, input := range inputs {
		s := newSource(how, input, i)
		s.done = ctx.Done()
		m.sources = append(m.sources, s)
		go func() {
			defer close(s.batches)
			defer fails.catch()
			s.run(ctx)
		}()
	}
	return m
}

// next returns the next event and the number of its input, from 0. The event is
// valid until the next call. It is nil at the end.
func (m *merger) next() (e *event, input int) {
	if m.current != nil {
		m.current.next++
		e = m.current.peek(&m.bad)
	}
	if e == nil || m.rival != nil && m.rival.newest <= m.current.newest {
		if m.choose(); m.current == nil {
			return nil, 0
		}
		e = m.current.peek(&m.bad)
	}
	return e, m.current.number
}

// choose finds the two sources to read from next. Among equals the first input
// wins.
func (m *merger) choose() {
	m.current, m.rival = nil, nil
	for _, s := range m.sources {
		switch {
		case s.peek(&m.bad) == nil:
		case m.current == nil:
			m.current = s
		case s.newest < m.current.newest:
			m.current, m.rival = s, m.current
		case m.rival == nil || s.newest < m.rival.newest:
			m.rival = s
		}
	}
}

// newest returns the greatest time that every input has reached.
func (m *merger) newest() int64 { return m.current.newest }

// bytes returns the number of bytes read from all inputs so far.
func (m *merger) bytes() (n int64) {
	for _, s := range m.sources {
		n += s.bytes.Load()
	}
	return n
}
