package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// respPatience is the timeout of an answer.
const respPatience = 10 * time.Second

// respCaller is a client connection that sends prepared requests and counts the lines of
// the answers.
type respCaller struct {
	conn     net.Conn
	requests [][]byte
	next     int
	lines    int    // lines of the answer to one request
	want     []byte // expected in the answer
	times    int    // how often want is expected
	answer   []byte
}

// ask sends the next request and reports whether the answer is as expected.
func (c *respCaller) ask() bool {
	if err := c.conn.SetDeadline(time.Now().Add(respPatience)); err != nil {
		return false
	}
	if _, err := c.conn.Write(c.requests[c.next]); err != nil {
		return false
	}
	c.next = (c.next + 1) % len(c.requests)
	read, lines := 0, 0
	for lines < c.lines {
		n, err := c.conn.Read(c.answer[read:])
		if err != nil || n == 0 {
			return false
		}
		lines += bytes.Count(c.answer[read:read+n], []byte{'\n'})
		read += n
	}
	return bytes.Count(c.answer[:read], c.want) == c.times
}

// respCallers connects a number of callers to a server.
func (f *field) respCallers(ctx context.Context, addr string, callers int, connected func(caller int) respCaller) ([]respCaller, error) {
	all := []respCaller{}
	for caller := range callers {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		f.closing(func() error {
			if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
		c := connected(caller)
		c.conn = conn
		all = append(all, c)
	}
	return all, nil
}

// throttles returns a caller that asks for each of the keys, depth of them in a request.
// An answer is a line that announces five values, and five numbers, of which the first is
// 0.
func throttles(keys []string, depth int) respCaller {
	c := respCaller{lines: 6 * depth, want: []byte("*5\r\n:0\r\n"), times: depth, answer: make([]byte, 128*depth)}
	for w := (&walk{keys: keys}); w.next+depth <= len(keys); {
		var text []byte
		for _, key := range w.take(depth) {
			text = appendThrottle(text, key, ample())
		}
		c.requests = append(c.requests, text)
	}
	return c
}

// appendThrottle appends a command. A bucket of the Redis module holds one more than its
// burst.
func appendThrottle(to []byte, key string, a allowance) []byte {
	to = append(to, "*5\r\n$11\r\nCL.THROTTLE\r\n"...)
	for _, word := range []string{key, strconv.FormatInt(a.burst-1, 10), "1", strconv.Itoa(int(a.every.Seconds()))} {
		to = fmt.Appendf(to, "$%d\r\n%s\r\n", len(word), word)
	}
	return to
}

func pings(int) respCaller {
	return respCaller{lines: 1, want: []byte("+PONG\r\n"), times: 1, answer: make([]byte, 64), requests: [][]byte{[]byte("*1\r\n$4\r\nPING\r\n")}}
}

// addRESP adds the Redis protocol: single commands from callers with a connection each,
// with a Redis server's PING for comparison, and pipelines, one on each connection.
func (f *field) addRESP(ctx context.Context, o options, ours *serverProcess, keys []string, out io.Writer) error {
	if err := f.addThrottles(ctx, ours, keys); err != nil || o.findRedis() == "" {
		return err
	}
	redis, version, err := startVersionedRedis(ctx, o.findRedis(), "")
	if err != nil {
		return err
	}
	f.closing(redis.stop)
	fmt.Fprintf(out, "the Redis server is %s\n", version)
	return f.addRESPCallers(ctx, surface{name: pingName, processes: []int{redis.process.Process.Pid}, callers: serverCallers, checks: 1}, redis.addr(), pings)
}

// addThrottles adds single commands and pipelines of the Redis protocol.
func (f *field) addThrottles(ctx context.Context, ours *serverProcess, keys []string) error {
	single, piped := walks(keys, serverCallers), walks(keys, serverConnections)
	err := f.addRESPCallers(ctx, surface{name: throttleName, processes: []int{ours.pid()}, callers: serverCallers, checks: 1}, ours.addrs["resp"],
		func(caller int) respCaller { return throttles(single[caller].keys, 1) })
	if err != nil {
		return err
	}
	return f.addRESPCallers(ctx, surface{name: pipelineName, processes: []int{ours.pid()}, callers: serverConnections, checks: pipelineDepth}, ours.addrs["resp"],
		func(caller int) respCaller { return throttles(piped[caller].keys, pipelineDepth) })
}

func (f *field) addRESPCallers(ctx context.Context, s surface, addr string, connected func(caller int) respCaller) error {
	callers, err := f.respCallers(ctx, addr, s.callers, connected)
	f.add(s, s.name, func(caller int) bool { return callers[caller].ask() })
	return err
}
