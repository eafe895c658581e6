package quorumstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// redisServer is a [server] that is Redis or Valkey.
type redisServer struct {
	address string
	opts    *Options
	rows    string // begins the keys of rows
	markKey string
	free    chan struct{} // has an element for each connection that is in use
	waiting atomic.Int64  // calls that wait for a connection
	unfit   atomic.Pointer[misfit]
	checked atomic.Int64 // when the server was last found fit or unfit, in Unix nanoseconds

	mu     sync.Mutex
	idle   []*conn            // guarded by mu; the one used last is the last
	open   map[*conn]struct{} // guarded by mu: all of them
	closed bool               // guarded by mu
}

// misfit says why a server must not be used.
type misfit struct{ err error }

var _ server = (*redisServer)(nil)

func newRedisServer(address string, o *Options) *redisServer {
	return &redisServer{
		address: address, opts: o, rows: o.Prefix + ":", markKey: o.Prefix + ":@quorum",
		free: make(chan struct{}, o.Conns), open: map[*conn]struct{}{},
	}
}

func (s *redisServer) name() string { return s.address }

// call implements [server].
func (s *redisServer) call(ctx context.Context, r *request) (*reply, error) {
	var elements [][]byte
	answered := false
	err := s.do(ctx, true, func(c *conn) (err error) {
		elements, err = c.eval(func(whole bool) { s.addCall(c, r, whole) })
		if answered = err == nil; answered && s.recheckDue() {
			return s.recheck(c)
		}
		return err
	})
	// Once answered, only the question what the server is can have failed. The script has run, so
	// the error must not say that nothing was sent.
	if err != nil && !answered {
		return nil, err
	}
	re, ok := s.readReply(r, elements)
	if !ok {
		return nil, s.garbled(errGarbled)
	}
	return re, nil
}

// addCall adds the commands of a request.
func (s *redisServer) addCall(c *conn, r *request, whole bool) {
	w := s.encode(r)
	c.script(callScript, whole, 1+len(r.ops), 1+len(r.ops))
	c.word(s.markKey)
	c.words(w.keys)
	s.addHead(c, &r.head)
	c.words(w.args)
}

func (s *redisServer) addHead(c *conn, h *head) {
	c.scratch = appendHead(c.scratch[:0], h, c.run)
	c.out = appendWord(c.out, c.scratch)
}

// wire is the operations of a request as words of a command. Requests to several servers with the
// same operations share it, and the first one encodes them.
type wire struct {
	once       sync.Once
	keys, args []byte
}

// encode returns the encoded operations of a request.
func (s *redisServer) encode(r *request) *wire {
	w := r.wire
	if w == nil {
		w = &wire{}
	}
	w.once.Do(func() {
		word := make([]byte, 0, 512)
		for i := range r.ops {
			word = append(append(word[:0], s.rows...), r.ops[i].key...)
			w.keys = appendWord(w.keys, word)
			word = appendOperation(word[:0], &r.ops[i], r.head.slack)
			w.args = appendWord(w.args, word)
		}
	})
	return w
}

func (s *redisServer) readReply(r *request, elements [][]byte) (re *reply, ok bool) {
	if len(elements) == 0 {
		return nil, false
	}
	re = &reply{}
	if re.about, ok = readAbout(elements[0]); !ok {
		return nil, false
	}
	elements = elements[1:]
	if re.about.status != statusOK {
		return re, len(elements) == 0
	}
	if len(elements) != len(r.ops) {
		return nil, false
	}
	floor := re.about.floor(r.head.slack)
	re.results = make([]result, len(r.ops))
	for i := range r.ops {
		if !s.readResult(&re.results[i], &r.ops[i], elements[i], floor) {
			return nil, false
		}
	}
	return re, true
}

// mark implements [server]. It asks the server what it is each time, because its answer
// decides whether the server may be a member.
func (s *redisServer) mark(ctx context.Context, r *markRequest) (*markReply, error) {
	var re *markReply
	err := s.do(ctx, false, func(c *conn) error {
		if err := s.recheck(c); err != nil {
			return err
		}
		next := r.new
		if next.run != c.run && next.run != disownedRun(c.run) { // the zero mark too
			next = mark{}
		}
		elements, err := c.eval(func(whole bool) {
			c.script(markScript, whole, 1, 3)
			c.word(s.markKey)
			c.word(string(appendMark(nil, &r.old)))
			c.word(string(appendMark(nil, &next)))
			c.word(string(appendNumber(nil, r.last)))
		})
		if err != nil {
			return err
		}
		var ok bool
		if re, ok = readMarkReply(elements); !ok {
			return errGarbled
		}
		re.run = c.run
		if m := s.unfit.Load(); m != nil {
			re.unfit = m.err
		}
		if r.search && re.mark == (mark{}) {
			err = s.search(ctx, c, re)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return re, nil
}

func readMarkReply(elements [][]byte) (re *markReply, ok bool) {
	if len(elements) != 1 || len(elements[0]) < aboutSize {
		return nil, false
	}
	data := elements[0]
	re = &markReply{set: data[0] == 1, time: number(data[1:])}
	re.mark, ok = readMark(data[aboutSize:])
	return re, ok
}

// The bounds of the search for a row on a server that may have keys of other programs.
const (
	emptyPage  = 1000
	emptyPages = 1000
)

// search notes whether the server has no row, or has too many keys to find out in time.
func (s *redisServer) search(ctx context.Context, c *conn, re *markReply) error {
	end, _ := ctx.Deadline() // of a call, there always is one
	cursor, left := "0", time.Until(end)
	for range emptyPages {
		if time.Until(end) < left/4 {
			break
		}
		rows, next, err := s.page(c, cursor)
		if err != nil || len(rows) > 0 {
			return err
		}
		if cursor = next; cursor == "0" {
			re.empty = true
			return nil
		}
	}
	re.unsearched = true
	return nil
}

// page returns the keys of rows on a page of SCAN, and the next cursor.
func (s *redisServer) page(c *conn, cursor string) (rows []string, next string, err error) {
	c.begin()
	c.command(6, "SCAN")
	for _, word := range []string{cursor, "MATCH", pattern(s.rows), "COUNT", strconv.Itoa(emptyPage)} {
		c.word(word)
	}
	if err := c.send(); err != nil {
		return nil, "", err
	}
	line, err := c.line()
	switch {
	case err != nil:
		return nil, "", err
	case line[0] == '-':
		return nil, "", &refusal{string(line[1:])}
	case string(line) != "*2":
		return nil, "", errGarbled
	}
	if line, err = c.line(); err != nil {
		return nil, "", err
	}
	left := mostReply
	cursorThen, err := c.bulk(line, &left)
	if err != nil {
		return nil, "", err
	}
	keys, err := c.reply()
	for _, key := range keys {
		if row, below := strings.CutPrefix(string(key), s.rows); below && isRow(row) {
			rows = append(rows, string(key))
		}
	}
	return rows, string(cursorThen), err
}

// scan implements [server].
func (s *redisServer) scan(ctx context.Context, r *scanRequest) (*scanReply, error) {
	cursor := r.cursor
	if cursor == "" {
		cursor = "0"
	}
	var elements [][]byte
	err := s.do(ctx, true, func(c *conn) (err error) {
		elements, err = c.eval(func(whole bool) {
			c.script(scanScript, whole, 1, 4)
			c.word(s.markKey)
			s.addHead(c, &r.head)
			for _, word := range []string{cursor, pattern(s.rows), strconv.Itoa(max(1, r.count))} {
				c.word(word)
			}
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	re, ok := s.readScanReply(elements)
	if !ok {
		return nil, s.garbled(errGarbled)
	}
	return re, nil
}

func (s *redisServer) readScanReply(elements [][]byte) (re *scanReply, ok bool) {
	if len(elements) == 0 {
		return nil, false
	}
	re = &scanReply{}
	if re.about, ok = readAbout(elements[0]); !ok {
		return nil, false
	}
	if re.about.status != statusOK {
		return re, len(elements) == 1
	}
	if len(elements) < 2 {
		return nil, false
	}
	if re.next = string(elements[1]); re.next == "0" {
		re.next = ""
	}
	for _, key := range elements[2:] {
		row, below := strings.CutPrefix(string(key), s.rows)
		if below && isRow(row) {
			re.keys = append(re.keys, row)
		}
	}
	return re, true
}

// recheckEvery is how often a server is asked again whether it may be a member: its settings
// may change while it runs.
const recheckEvery = 10 * time.Second

// recheckDue reports whether this call is to ask the server what it is.
func (s *redisServer) recheckDue() bool {
	now, last := time.Now().UnixNano(), s.checked.Load()
	return now-last > int64(recheckEvery) && s.checked.CompareAndSwap(last, now)
}

// recheck asks the server what it is, and remembers whether it may be a member.
func (s *redisServer) recheck(c *conn) error {
	c.begin()
	c.command(1, "INFO")
	if err := c.send(); err != nil {
		return err
	}
	info, err := readInfo(c)
	if err != nil {
		return err
	}
	s.judge(info)
	return nil
}

func (s *redisServer) judge(info string) {
	s.checked.Store(time.Now().UnixNano())
	if err := s.fits(info); err != nil {
		s.unfit.Store(&misfit{err})
	} else {
		s.unfit.Store(nil)
	}
}
