package memcachedstore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/stintdev/stint/internal/cas"
)

// conn is a connection to a server. One call at a time uses it: it writes the commands of a
// whole batch, and then reads all answers, which come in the order of the commands.
//
// The commands are the classic text commands gets, add and cas, which every server knows,
// and which can be sent without a wait for each answer. The meta commands of newer servers
// would save no round trip.
type conn struct {
	net.Conn

	in     *bufio.Reader
	out    []byte // the commands that are not sent yet, or the last ones
	keys   []span // in out, of the last gets
	reused bool

	// A server counts versions from 1 again when it restarts. The version of an item is
	// therefore the server's number XOR the incarnation, a hash of what tells one run of
	// the server from another: a version of another run is one that no item has.
	incarnation uint64
	started     time.Time // when the connection was made
	serverTime  int64     // of the server then, in Unix seconds
}

// span is a part of conn.out.
type span struct{ from, to int }

// bufferSize is that of the answers of a batch of small items.
const bufferSize = 16 << 10

// use calls f, and ends it when ctx ends.
func (c *conn) use(ctx context.Context, f func(*conn) error) error {
	end, _ := ctx.Deadline() // of a call, there always is one
	if err := c.SetDeadline(end); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // an error: it is closed
	c.out, c.keys = c.out[:0], c.keys[:0]
	err := f(c)
	switch stopped := stop(); {
	case err == nil && !stopped:
		return ctx.Err() // the past deadline may hit the next call
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// send writes the commands.
func (c *conn) send() error {
	_, err := c.Write(c.out)
	return err
}

// gets adds the command that reads items. key appends the i-th key.
func (c *conn) gets(count int, key func(to []byte, i int) []byte) {
	c.out = append(c.out, "gets"...)
	for i := range count {
		c.out = append(c.out, ' ')
		from := len(c.out)
		c.out = key(c.out, i)
		c.keys = append(c.keys, span{from, len(c.out)})
	}
	c.out = append(c.out, "\r\n"...)
}

// add adds the command that writes an item if there is none.
func (c *conn) add(key func(to []byte) []byte, expiry int64, value []byte) {
	c.out = append(key(append(c.out, "add "...)), " 0 "...)
	c.out = strconv.AppendInt(c.out, expiry, 10)
	c.out = strconv.AppendInt(append(c.out, ' '), int64(len(value)), 10)
	c.value(value)
}

// compareAndSwap adds the command that writes an item if its version is still old.
func (c *conn) compareAndSwap(key func(to []byte) []byte, expiry int64, old uint64, value []byte) {
	c.out = append(key(append(c.out, "cas "...)), " 0 "...)
	c.out = strconv.AppendInt(c.out, expiry, 10)
	c.out = strconv.AppendInt(append(c.out, ' '), int64(len(value)), 10)
	c.out = strconv.AppendUint(append(c.out, ' '), old^c.incarnation, 10)
	c.value(value)
}

func (c *conn) value(value []byte) {
	c.out = append(append(append(c.out, "\r\n"...), value...), "\r\n"...)
}

// items reads the answer to gets. It calls found with the index of each key that has an
// item. The answers are in the order of the keys.
func (c *conn) items(found func(i int, item cas.Item)) error {
	for at := 0; ; at++ {
		line, err := c.line()
		if err != nil {
			return err
		}
		if string(line) == "END" {
			return nil
		}
		entry, ok := bytes.CutPrefix(line, []byte("VALUE ")) // KEY FLAGS LENGTH VERSION
		if !ok {
			return refusalOf(line)
		}
		key, rest, _ := bytes.Cut(entry, []byte(" "))
		_, rest, _ = bytes.Cut(rest, []byte(" "))
		length, version, _ := bytes.Cut(rest, []byte(" "))
		for at < len(c.keys) && !bytes.Equal(c.out[c.keys[at].from:c.keys[at].to], key) {
			at++
		}
		v, wrong := strconv.ParseUint(string(version), 10, 64)
		if at == len(c.keys) || wrong != nil || v == 0 {
			return errGarbled
		}
		value, err := c.readValue(length)
		if err != nil {
			return err
		}
		found(at, cas.Item{Value: value, Version: v ^ c.incarnation})
	}
}

// readValue reads a value and the end of its line. It drops what is beyond the length of
// any value that the store writes.
func (c *conn) readValue(length []byte) ([]byte, error) {
	n, err := strconv.ParseUint(string(length), 10, 31)
	if err != nil {
		return nil, errGarbled
	}
	value := make([]byte, min(n, cas.MaxValue+1))
	if _, err := io.ReadFull(c.in, value); err != nil {
		return nil, err
	}
	if _, err := c.in.Discard(int(n) - len(value)); err != nil {
		return nil, err
	}
	if line, err := c.line(); err != nil || len(line) > 0 {
		return nil, errors.Join(err, errGarbled)
	}
	return value, nil
}

// line reads a line of an answer. It is valid until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errGarbled
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// statistics are what a server tells of itself.
type statistics struct {
	version   string
	time      int64 // in Unix seconds
	evictions uint64
	run       uint64 // differs from run to run of the server
	noCAS     bool   // started with -C
}

// askStatistics asks for the statistics.
func (c *conn) askStatistics() (s statistics, err error) {
	c.out = append(append(c.out, "stats\r\n"...), "stats settings\r\n"...)
	if err := c.send(); err != nil {
		return s, err
	}
	values, settings := map[string]string{}, map[string]string{} // both have a value named evictions
	if err := c.readStatistics(values); err != nil {
		return s, err
	}
	if err := c.readStatistics(settings); err != nil {
		if _, refused := errors.AsType[*refusal](err); !refused { // what the server does not tell, it has by default
			return s, err
		}
	}
	s.version, s.noCAS = values["version"], settings["cas_enabled"] == "no"
	s.time, _ = strconv.ParseInt(values["time"], 10, 64) // 0: not told
	s.evictions, _ = strconv.ParseUint(values["evictions"], 10, 64)
	uptime, _ := strconv.ParseInt(values["uptime"], 10, 64)
	sum := sha256.Sum256([]byte(values["pid"] + " " + strconv.FormatInt(s.time-uptime, 10)))
	s.run = binary.BigEndian.Uint64(sum[:])
	if s.version == "" || s.time == 0 {
		return s, errGarbled
	}
	return s, nil
}

// readStatistics reads the answer to stats into values.
func (c *conn) readStatistics(values map[string]string) error {
	const most = 1000
	for range most {
		line, err := c.line()
		if err != nil {
			return err
		}
		if string(line) == "END" {
			return nil
		}
		rest, found := bytes.CutPrefix(line, []byte("STAT "))
		if !found {
			return refusalOf(line)
		}
		name, value, _ := bytes.Cut(rest, []byte(" "))
		values[string(name)] = string(value)
	}
	return errGarbled
}

// now returns the time of the server, in Unix seconds.
func (c *conn) now() int64 { return c.serverTime + int64(time.Since(c.started)/time.Second) }
