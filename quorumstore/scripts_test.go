package quorumstore

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
)

// history makes the same random requests to a server and to the acceptor in Go, whose
// answers must be equal.
type history struct {
	*testing.T

	*rand.Rand

	subject   server
	reference *memoryServer
	settle    func() // makes the clocks ready for the next request, and moves them
	follow    bool   // the reference has the time of the subject's last reply
	now       int64
	mark      mark
	ballots   []ballot // that were proposed
}

func newHistory(t *testing.T, subject server) *history {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &history{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), subject: subject}
	h.reference = newMemoryServer("model", func() int64 { return h.now })
	return h
}

// born marks both servers anew.
func (h *history) born() {
	h.Helper()
	h.settle()
	known, err := h.subject.mark(inTime(h.T), &markRequest{})
	if err != nil {
		h.Fatal(err)
	}
	m := mark{incarnation: 1 + h.Int64N(1<<53-1), run: known.run, members: h.Uint64(), birth: known.time - h.Int64N(4e6), ever: h.IntN(2) == 0}
	if re, err := h.subject.mark(inTime(h.T), &markRequest{old: known.mark, new: m}); err != nil || !re.set || re.mark != m {
		h.Fatalf("%+v %v", re, err)
	}
	h.mark, h.reference.mark = m, m
	h.reference.mark.run = h.reference.runID()
}

// ballot returns a ballot about now, or one that was there before.
func (h *history) ballot() ballot {
	if len(h.ballots) > 0 && h.IntN(3) > 0 {
		b := h.ballots[h.IntN(len(h.ballots))]
		b.id = max(1, b.id+h.Int64N(3)-1)
		return b
	}
	b := ballot{max(1, h.now+h.Int64N(8e6)-3e6), 1 + h.Int64N(maxID-1)}
	h.ballots = append(h.ballots, b)
	return b
}

func (h *history) operation(key string) operation {
	op := operation{verb: verb(h.IntN(4)), key: key}
	if op.verb == verbRead {
		return op
	}
	if op.ballot = h.ballot(); op.verb != verbAccept {
		return op
	}
	if h.IntN(2) == 0 {
		op.next = ballot{op.ballot.t + h.Int64N(2), op.ballot.id + 1}
	}
	op.upTo = uint8(h.IntN(6))
	for class := range op.upTo + 1 {
		if class == op.upTo || h.IntN(3) == 0 {
			data := make([]byte, h.IntN(30))
			for i := range data {
				data[i] = byte(h.Uint32())
			}
			op.parts = append(op.parts, part{class: class, ballot: op.ballot, expires: h.now + h.Int64N(6e6) - 1e6, data: data})
		}
	}
	return op
}

func (h *history) head() head {
	hd := head{members: h.mark.members, incarnation: h.mark.incarnation, slack: 2 * time.Second}
	switch h.IntN(12) {
	case 0:
		hd.members++
	case 1:
		hd.incarnation = 1 + h.Int64N(1<<53-1)
	case 2:
		hd.incarnation = 0
	case 3:
		hd.last = h.now - 1e9
	case 4:
		hd.last = h.now + 1e9
	}
	return hd
}

// step makes a request.
func (h *history) step() {
	h.Helper()
	h.settle()
	r := &request{head: h.head()}
	for i := range h.IntN(4) {
		r.ops = append(r.ops, h.operation(fmt.Sprintf("=k%d", (h.IntN(2)+2*i))))
	}
	got, err := h.subject.call(inTime(h.T), r)
	if err != nil {
		h.Fatal(err)
	}
	if h.follow {
		h.now = got.about.time
	}
	want, _ := h.reference.call(h.Context(), r)
	if !reflect.DeepEqual(plain(got), plain(want)) {
		h.Fatalf("request %+v:\n got %+v\nwant %+v", r, got, want)
	}
}

// plain returns a reply in which equal data are equal in Go.
func plain(r *reply) *reply {
	for i := range r.results {
		for j := range r.results[i].row.parts {
			p := &r.results[i].row.parts[j]
			p.data = append([]byte{}, p.data...)
		}
		if len(r.results[i].row.parts) == 0 {
			r.results[i].row.parts = nil
		}
	}
	if len(r.results) == 0 {
		r.results = nil
	}
	return r
}

// nearExpiry reports whether a row of the reference expired in the last milliseconds. Redis
// expires keys at whole milliseconds, and so up to 2 ms after the reference.
func (h *history) nearExpiry(margin int64) bool {
	for _, r := range h.reference.rows {
		latest := r.promise.t
		for i := range r.parts {
			latest = max(latest, r.parts[i].expires)
		}
		if end := latest + 2e6; end-margin < h.now && h.now < end+margin+2000 {
			return true
		}
	}
	return false
}

// TestScriptsAreTheAcceptorOnLua54 checks the scripts on Lua 5.4, with a clock that moves
// as the test likes: forward, over expiries, and back.
func TestScriptsAreTheAcceptorOnLua54(t *testing.T) {
	for _, numbers := range []string{"float", "integer"} {
		t.Run(numbers, func(t *testing.T) {
			l := newLuaRedis(t, numbers)
			if l == nil {
				t.Skip("needs lua5.4 (run scripts/install-test-servers)")
			}
			h := newHistory(t, dialTest(t, "lua:1", func(o *Options) { o.Dial = l.dial }))
			h.now = 1_790_000_000_123_456
			h.settle = func() {
				if h.IntN(3) == 0 {
					h.now += h.Int64N(3e6) - 5e5
				}
				for h.nearExpiry(0) {
					h.now += 1000
				}
				l.now = h.now
			}
			for range 20 {
				h.born()
				for range 100 {
					h.step()
				}
			}
		})
	}
}

// TestScriptsAreTheAcceptorOnAServer checks the scripts on a server by its own clock.
func TestScriptsAreTheAcceptorOnAServer(t *testing.T) {
	p := redistest.Server(t)
	h := newHistory(t, dialTest(t, p.Addr(), nil))
	h.follow = true
	h.settle = func() {
		for h.now = time.Now().UnixMicro(); h.nearExpiry(50_000); h.now = time.Now().UnixMicro() {
			for key := range h.reference.rows { // rather than wait, forget the rows
				p.Must("DEL", "stint:"+key)
				delete(h.reference.rows, key)
			}
		}
	}
	for range 5 {
		h.born()
		for range 200 {
			h.step()
		}
	}
}

// TestARowExpires checks that a server forgets a row, and answers with the floor.
func TestARowExpires(t *testing.T) {
	p, s, m := started(t)
	slack := 50 * time.Millisecond
	h := head{members: m.members, slack: slack}
	now, err := s.call(inTime(t), &request{head: h})
	if err != nil {
		t.Fatal(err)
	}
	b := ballot{now.about.time + 60_000, 5}
	if _, err := s.call(inTime(t), &request{head: h, ops: []operation{{verb: verbAccept, key: "k", ballot: b, parts: []part{{ballot: b, expires: b.t + 1000}}}}}); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, func() error {
		if got := strings.TrimSpace(p.Must("DBSIZE")); got != "1" {
			return fmt.Errorf("%s keys", got)
		}
		return nil
	})
	r, err := s.call(inTime(t), &request{head: h, ops: []operation{{key: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, least := r.results[0].row, b.t+1000; r.about.time < least+slack.Microseconds() || len(got.parts) > 0 || got.promise.t < least || got.promise.id != maxID {
		t.Errorf("at %d: %+v", r.about.time, got)
	}
}
