package quorumstore

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the server names scripts by it; it protects nothing
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/internal/cas"
)

// The formats of this file are those of the scripts; head.lua and call.lua describe them.
const (
	rowVersion = 1
	numberSize = 7 // of a whole number below 2^53
	ballotSize = 2 * numberSize
	headerSize = 1 + ballotSize + numberSize + 1
	partSize   = 1 + ballotSize + numberSize + 4
	markSize   = 8 + 2*numberSize + 1 // without its run
	aboutSize  = 1 + numberSize
)

// mostTime is the greatest expiry that a server stores, in the year 2255: a number of Lua
// must hold it with the slack added. Later ones are stored as this one.
const mostTime = 1<<53 - 1<<42

var errRow = errors.New("quorumstore: a row is not in the format of this version")

func appendNumber(to []byte, n int64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	return append(to, b[1:]...)
}

// number reads a number. The data has its bytes.
func number(data []byte) (n int64) {
	for _, b := range data[:numberSize] {
		n = n<<8 | int64(b)
	}
	return n
}

func appendBallot(to []byte, b ballot) []byte { return appendNumber(appendNumber(to, b.t), b.id) }

func ballotOf(data []byte) ballot { return ballot{number(data), number(data[numberSize:])} }

// stored returns an expiry as a server stores it.
func stored(expires int64) int64 { return min(max(expires, 0), mostTime) }

// appendHead appends the head of a request to a server whose process has a run_id.
func appendHead(to []byte, h *head, run string) []byte {
	to = binary.BigEndian.AppendUint64(to, h.members)
	to = appendNumber(appendNumber(appendNumber(to, h.incarnation), h.last), h.slack.Microseconds())
	return append(to, run...)
}

// The ends of operations, in replies.
const (
	endDone    = 'o'
	endRefused = 'n'
	endCorrupt = 'c'
	endFailed  = 'f'
)

// verbs begin operations.
var verbs = [...]byte{verbRead: 'r', verbPrepare: 'p', verbPrepareNew: 'i', verbAccept: 'a'}

// appendOperation appends an operation of a request with a slack.
func appendOperation(to []byte, op *operation, slack time.Duration) []byte {
	to = append(to, verbs[op.verb])
	switch op.verb {
	case verbRead:
		return to
	case verbPrepare, verbPrepareNew:
		return appendBallot(to, op.ballot)
	case verbAccept:
	}
	promise, latest := maxBallot(op.ballot, op.next), int64(0)
	for i := range op.parts {
		latest = max(latest, stored(op.parts[i].expires))
	}
	to = appendUntil(appendBallot(to, op.ballot), max(latest, promise.t)+slack.Microseconds())
	to = appendBallot(append(to, rowVersion), promise)
	to = append(appendNumber(to, latest), op.upTo)
	for i := range op.parts {
		p := &op.parts[i]
		to = appendNumber(appendBallot(append(to, p.class), p.ballot), stored(p.expires))
		to = binary.BigEndian.AppendUint32(to, uint32(len(p.data)))
		to = append(to, p.data...)
	}
	return to
}

// appendUntil appends a time as text, in milliseconds that are rounded up, and before it the
// length of that.
func appendUntil(to []byte, micros int64) []byte {
	at := len(to)
	to = strconv.AppendInt(append(to, 0), max(1, (micros+999)/1000), 10)
	to[at] = byte(len(to) - at - 1)
	return to
}

// readRow reads a row. Its parts refer to the data.
func readRow(data []byte) (r row, err error) {
	if len(data) < headerSize || data[0] != rowVersion {
		return r, errRow
	}
	r.promise = ballotOf(data[1:])
	data = data[headerSize:]
	for len(data) > 0 {
		if len(data) < partSize || data[0] > maxClass {
			return row{}, errRow
		}
		p := part{class: data[0], ballot: ballotOf(data[1:]), expires: number(data[1+ballotSize:])}
		length := binary.BigEndian.Uint32(data[partSize-4:])
		data = data[partSize:]
		if uint64(length) > uint64(len(data)) || len(r.parts) > 0 && p.class <= r.parts[len(r.parts)-1].class {
			return row{}, errRow
		}
		p.data, data = data[:length:length], data[length:]
		r.parts = append(r.parts, p)
	}
	return r, nil
}

// readAbout reads the first element of a reply.
func readAbout(data []byte) (a about, ok bool) {
	if len(data) < aboutSize || data[0] > byte(statusLate) {
		return a, false
	}
	a.status, a.time = status(data[0]), number(data[1:])
	if a.status == statusUnborn {
		return a, len(data) == aboutSize
	}
	if len(data) != aboutSize+2*numberSize+1 {
		return a, false
	}
	data = data[aboutSize:]
	a.incarnation, a.birth, a.ever = number(data), number(data[numberSize:]), data[2*numberSize] == 1
	return a, true
}

// floor returns the promise of a key without a row.
func (a *about) floor(slack time.Duration) ballot {
	s := slack.Microseconds()
	return ballot{max(a.birth+s, a.time-s), maxID}
}

// readResult reads the element of an operation. The row of an operation without one is the
// floor. It returns false if the element is none of call.lua.
func (s *redisServer) readResult(r *result, op *operation, data []byte, floor ballot) bool {
	if len(data) == 0 {
		return false
	}
	end, data := data[0], data[1:]
	switch end {
	case endCorrupt:
		r.err = s.corrupt(op.key)
		return true
	case endFailed:
		r.err = s.explain(&refusal{string(data)})
		return true
	case endRefused:
		r.refused = true
	case endDone:
		if op.verb == verbAccept {
			return true
		}
	default:
		return false
	}
	if len(data) == 0 {
		r.row = row{promise: floor}
		return true
	}
	var err error
	if r.row, err = readRow(data); err != nil {
		r.err = s.corrupt(op.key)
	}
	return true
}

// appendMark appends a mark. The zero mark is empty.
func appendMark(to []byte, m *mark) []byte {
	if *m == (mark{}) {
		return to
	}
	to = binary.BigEndian.AppendUint64(to, m.members)
	to = appendNumber(appendNumber(to, m.incarnation), m.birth)
	ever := byte(0)
	if m.ever {
		ever = 1
	}
	return append(append(to, ever), m.run...)
}

func readMark(data []byte) (m mark, ok bool) {
	if len(data) == 0 {
		return m, true
	}
	if len(data) <= markSize {
		return m, false
	}
	m.members = binary.BigEndian.Uint64(data)
	data = data[8:]
	m.incarnation, m.birth, m.ever = number(data), number(data[numberSize:]), data[2*numberSize] == 1
	m.run = string(data[2*numberSize+1:])
	return m, true
}

// isRow reports whether a text without the prefix is the key of a row. The key of another prefix
// that begins with this one, such as those of stint:blue for stint, is none: what follows this
// prefix in it is no mark, because no prefix has a row ([hasRow]).
func isRow(key string) bool { return key != "" && bytes.IndexByte(cas.Marks[:], key[0]) >= 0 }

// hasRow reports whether keys of a prefix could be taken for rows of a shorter one.
func hasRow(prefix string) bool {
	parts := strings.Split(prefix, ":")
	return slices.ContainsFunc(parts[1:], isRow)
}

// pattern returns the pattern of SCAN for the keys of rows, which begin with a prefix.
func pattern(prefix string) string {
	var text strings.Builder
	for i := range len(prefix) {
		if strings.IndexByte(`*?[]\`, prefix[i]) >= 0 {
			text.WriteByte('\\')
		}
		text.WriteByte(prefix[i])
	}
	text.WriteByte('[')
	for _, mark := range cas.Marks {
		text.WriteByte('\\')
		text.WriteByte(mark)
	}
	return text.String() + "]*"
}

// script is a program of Lua.
type script struct {
	text string
	sha  string // the script's name for EVALSHA
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

var (
	//go:embed head.lua
	headText string
	//go:embed call.lua
	callText string
	//go:embed scan.lua
	scanText string
	//go:embed mark.lua
	markText string

	callScript = newScript(headText + callText)
	scanScript = newScript(headText + scanText)
	markScript = newScript(markText)
)
