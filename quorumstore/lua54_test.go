package quorumstore

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
)

// luaRedis is a server whose scripts run on Lua 5.4, and whose clock and keys are those of
// the test. Its connections answer within Write, so one goroutine uses it.
type luaRedis struct {
	testing.TB

	lua   *redistest.Lua
	run   string
	now   int64 // microseconds
	rows  map[string]string
	until map[string]int64 // in milliseconds; the keys that expire
	known map[string]string
}

// newLuaRedis returns nil if lua5.4 is not installed.
func newLuaRedis(tb testing.TB, numbers string) *luaRedis {
	tb.Helper()
	l := &luaRedis{TB: tb, lua: redistest.NewLua(tb, numbers), run: "run1", rows: map[string]string{}, until: map[string]int64{}, known: map[string]string{}}
	if l.lua == nil {
		return nil
	}
	l.lua.Answer = l.answer
	return l
}

// dial is Options.Dial.
func (l *luaRedis) dial(context.Context, string, string) (net.Conn, error) {
	return &luaConn{server: l}, nil
}

// beforeClass returns the part of a pattern before its class.
func beforeClass(pattern string) string {
	before, _, _ := strings.Cut(pattern, "[")
	return before
}

func bulk(text string) []byte { return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text) }

// answer makes a command of a script or of a client.
func (l *luaRedis) answer(words []string) []byte {
	switch strings.ToUpper(words[0]) {
	case "TIME":
		return redistest.EncodeWords([]string{strconv.FormatInt(l.now/1e6, 10), strconv.FormatInt(l.now%1e6, 10)})
	case "GET":
		l.expire(words[1])
		if value, found := l.rows[words[1]]; found {
			return bulk(value)
		}
		return []byte("$-1\r\n")
	case "SET":
		l.rows[words[1]] = words[2]
		delete(l.until, words[1])
		if len(words) == 5 && words[3] == "PXAT" {
			until, err := strconv.ParseInt(words[4], 10, 64)
			if err != nil || until <= 0 {
				l.Errorf("PXAT %s", words[4])
			}
			l.until[words[1]] = until
		} else if len(words) != 3 {
			l.Errorf("command %q", words)
		}
		return []byte("+OK\r\n")
	case "SCAN":
		var keys []string
		for key := range l.rows {
			if !l.expired(key) && strings.HasPrefix(key, beforeClass(words[3])) {
				keys = append(keys, key)
			}
		}
		return append([]byte("*2\r\n$1\r\n0\r\n"), redistest.EncodeWords(keys)...)
	case "INFO":
		return bulk("redis_version:7.2.0\r\nrun_id:" + l.run + "\r\n")
	case "EVAL":
		text := words[1]
		sha := newScript(text).sha
		l.known[sha] = text
		return l.eval(text, words[2:])
	case "EVALSHA":
		if text, found := l.known[words[1]]; found {
			return l.eval(text, words[2:])
		}
		return []byte("-NOSCRIPT No matching script.\r\n")
	}
	l.Errorf("command %q", words)
	return []byte("-ERR unknown command\r\n")
}

func (l *luaRedis) eval(text string, words []string) []byte {
	keys, err := strconv.Atoi(words[0])
	if err != nil {
		l.Error(err)
	}
	return redistest.EncodeWords(l.lua.Eval(text, words[1:1+keys], words[1+keys:]))
}

func (l *luaRedis) expired(key string) bool {
	until, expires := l.until[key]
	return expires && l.now/1000 > until
}

// expire removes a key whose time is over. A walk does not: if the clock runs back, the
// reference has the row again, because it forgets a row only when an operation finds it.
func (l *luaRedis) expire(key string) {
	if l.expired(key) {
		delete(l.until, key)
		delete(l.rows, key)
	}
}

// luaConn is a connection to a luaRedis.
type luaConn struct {
	net.Conn

	server  *luaRedis
	replies bytes.Buffer
}

func (c *luaConn) Write(data []byte) (int, error) {
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		var words, length int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &words); err != nil {
			return len(data), nil //nolint:nilerr // the commands are whole
		}
		command := make([]string, words)
		for i := range command {
			if _, err := fmt.Fscanf(in, "$%d\r\n", &length); err != nil {
				return 0, err
			}
			word := make([]byte, length+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return 0, err
			}
			command[i] = string(word[:length])
		}
		c.replies.Write(c.server.answer(command))
	}
}

func (c *luaConn) Read(to []byte) (int, error)     { return c.replies.Read(to) }
func (c *luaConn) Close() error                    { return nil }
func (c *luaConn) SetDeadline(time.Time) error     { return nil }
func (c *luaConn) SetReadDeadline(time.Time) error { return nil }
