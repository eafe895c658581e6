package quorumstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// conn is a connection to one process of a server. One call at a time uses it.
//
// The package has a client of its own because of the order of what a connection sends: a
// request names the run_id of the process, and must never reach another process, such as
// one that was started from an old disk. A client that reconnects by itself cannot promise
// that.
type conn struct {
	net.Conn

	in      *bufio.Reader
	out     []byte // the commands that are not sent yet, or the last ones
	scratch []byte // of one word
	run     string // run_id of the process
	used    time.Time
}

// bufferSize is that of the answers of a batch of small rows.
const bufferSize = 16 << 10

// refusal is an error that a server answers with.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

var errGarbled = errors.New("quorumstore: an answer that is not one of Redis")

// use calls f, and ends it when ctx ends.
func (c *conn) use(ctx context.Context, f func(*conn) error) error {
	end, _ := ctx.Deadline() // of a call, there always is one
	if err := c.SetDeadline(end); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // an error: it is closed
	err := f(c)
	switch stopped := stop(); {
	case err == nil && !stopped:
		return ctx.Err() // the past deadline may hit the next call
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// begin drops the commands of the last call.
func (c *conn) begin() { c.out = c.out[:0] }

// command adds the begin of a command with a number of words, which follow.
func (c *conn) command(words int, name string) {
	c.out = strconv.AppendInt(append(c.out, '*'), int64(words), 10)
	c.out = append(c.out, "\r\n"...)
	c.word(name)
}

// word adds a word of a command.
func (c *conn) word(text string) {
	c.out = appendWord(c.out, text)
}

// words adds words that are encoded.
func (c *conn) words(encoded []byte) { c.out = append(c.out, encoded...) }

func appendWord[T string | []byte](to []byte, word T) []byte {
	to = strconv.AppendInt(append(to, '$'), int64(len(word)), 10)
	to = append(append(to, "\r\n"...), word...)
	return append(to, "\r\n"...)
}

// script adds the begin of a call of a script. Its keys and then its arguments follow.
func (c *conn) script(s *script, whole bool, keys, args int) {
	if whole {
		c.command(3+keys+args, "EVAL")
		c.word(s.text)
	} else {
		c.command(3+keys+args, "EVALSHA")
		c.word(s.sha)
	}
	c.word(strconv.Itoa(keys))
}

// eval sends a call of a script that add writes, and returns the elements of its reply. If
// the server has lost the script, it did not run it: the call is then sent again with the
// text of the script.
func (c *conn) eval(add func(whole bool)) ([][]byte, error) {
	for _, whole := range []bool{false, true} {
		c.begin()
		add(whole)
		if err := c.send(); err != nil {
			return nil, err
		}
		elements, err := c.reply()
		if answer, ok := err.(*refusal); !ok || whole || !strings.HasPrefix(answer.text, "NOSCRIPT") { //nolint:errorlint // reply wraps no refusal
			return elements, err
		}
	}
	return nil, errGarbled // not reached
}

// send writes the commands.
func (c *conn) send() error {
	_, err := c.Write(c.out)
	return err
}

// The greatest reply: a row of each key of a batch, each of which may have classes that
// readers were too young for beside the newest ones.
const (
	mostElements = 1 << 20
	mostReply    = 64 << 20
)

// reply reads a reply: an array of texts, or a single one. The error of a server is a
// *refusal. The elements share one buffer if they are small.
func (c *conn) reply() ([][]byte, error) {
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	switch line[0] {
	case '-':
		return nil, &refusal{string(line[1:])}
	case '+', ':':
		return [][]byte{append([]byte(nil), line[1:]...)}, nil
	case '$':
		left := mostReply
		element, err := c.bulk(line, &left)
		return [][]byte{element}, err
	case '*':
	default:
		return nil, errGarbled
	}
	count, ok := lengthOf(line)
	if !ok || count > mostElements {
		return nil, errGarbled
	}
	elements, left := make([][]byte, 0, min(count, bufferSize)), mostReply
	for range count {
		if line, err = c.line(); err != nil {
			return nil, err
		}
		element, err := c.bulk(line, &left)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}

// bulk reads a text whose length stands in a line.
func (c *conn) bulk(line []byte, left *int) ([]byte, error) {
	length, ok := lengthOf(line)
	if !ok || line[0] != '$' || length > *left {
		return nil, errGarbled
	}
	*left -= length
	data := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(c.in, data); err != nil {
		return nil, err
	}
	return data[:length], nil
}

// lengthOf reads the length of a text or an array.
func lengthOf(line []byte) (n int, ok bool) {
	if len(line) < 2 || len(line) > 10 {
		return 0, false
	}
	for _, digit := range line[1:] {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = 10*n + int(digit-'0')
	}
	return n, true
}

// line reads a line, which has at least a byte. It is valid until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errGarbled
	case err != nil:
		return nil, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return nil, errGarbled
	}
	return line[:len(line)-2], nil
}
