package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stintdev/stint/internal/memcachedtest"
	"github.com/stintdev/stint/memcachedstore"
)

// bareSwapName is the way to limit in Memcached that most programs begin with.
const bareSwapName = "gets and cas, a connection a caller"

// overMemcached compares the store in Memcached with a bare gets and cas for each check, on
// one server.
func overMemcached(ctx context.Context, o options, out io.Writer, b *bars) error {
	return withHost(out, func(host *host) error {
		s := &memcachedServer{memcachedtest.Start(host, "-m", "1024")}
		fmt.Fprintf(out, "\nstores: Memcached %s, not pinned\n", s.Stat("version"))
		keys := identities(min(o.keys, 100_000))
		for _, c := range []calling{{1, false}, {64, false}, {64, true}} {
			if err := errors.Join(s.race(o, c, keys, out, b), ctx.Err()); err != nil {
				return err
			}
		}
		return nil
	})
}

// memcachedServer is a server of Memcached with the contestants on it.
type memcachedServer struct{ *memcachedtest.Server }

func (s *memcachedServer) race(o options, c calling, keys []string, out io.Writer, b *bars) error {
	var runners []runner
	seen := map[string]*answers{}
	contestants := []networked{{stintName, s.stint}, {bareSwapName, s.bare}}
	for _, one := range contestants {
		t, leave, err := one.build(ample())
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		defer leave()
		seen[one.name] = newAnswers(c.callers, c.parts())
		runners = append(runners, c.runner(one.name, t, keys, seen[one.name]))
	}
	r := networkRace{c, c.race(o).interleave(runners), seen}
	title := strings.Replace(r.String(), "redis", "memcached", 1)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n%s\t\n\tchecks/s\tratio\tp50\tp99\tnot admitted\t\n", title)
	for _, one := range contestants {
		a := seen[one.name]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%v\t%v\t%.2g %%\t\n", one.name, 1e9/r.timings.ns(one.name), r.timings.ratio(bareSwapName, one.name),
			readable(a.P50), readable(a.P99), 100*float64(a.Refused)/float64(max(a.Calls, 1)))
	}
	table.Flush()
	switch {
	case c.hot:
		b.judgeLeast(title, r.timings.ratio(bareSwapName, stintName), 20, "of a bare gets and cas")
	case c.callers == 64:
		b.judgeLeast(title, r.timings.ratio(bareSwapName, stintName), 0.8, "of a bare gets and cas")
		b.judge(title+", p99", median(seen[stintName].P99)/median(seen[bareSwapName].P99), 1.25, "of a bare gets and cas")
	}
	return nil
}

func (s *memcachedServer) stint(a allowance) (take, func(), error) {
	store, err := memcachedstore.New(memcachedstore.Options{Servers: []string{s.Addr()}, Timeout: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	t, err := takeOf(store, a)
	return t, func() { _ = store.Close() }, err
}

// bare is a token bucket whose item each check reads and swaps, on a connection of its own,
// until the swap is made.
func (s *memcachedServer) bare(a allowance) (take, func(), error) {
	free := make(chan *bareConn, mostCallers)
	var dialer net.Dialer
	for range 64 {
		c, err := dialer.DialContext(context.Background(), "tcp", s.Addr())
		if err != nil {
			return nil, nil, err
		}
		free <- &bareConn{Conn: c, in: bufio.NewReader(c)}
	}
	rate := 1 / a.every.Seconds()
	take := func(key string) bool {
		c := <-free
		defer func() { free <- c }()
		for {
			allowed, done, err := c.step(key, float64(a.burst), rate)
			if done || err != nil {
				return allowed && err == nil
			}
		}
	}
	return take, func() {
		for range cap(free) {
			select {
			case c := <-free:
				_ = c.Close()
			default:
			}
		}
	}, nil
}

// bareConn is a connection to Memcached.
type bareConn struct {
	net.Conn

	in  *bufio.Reader
	out []byte
}

// step reads the bucket of a key, and writes it if it has a token. It returns done = false
// if another caller was faster.
func (c *bareConn) step(key string, capacity, rate float64) (allowed, done bool, err error) {
	tokens, at, version, err := c.gets(key)
	if err != nil {
		return false, false, err
	}
	now := time.Now().UnixMicro()
	if tokens = min(capacity, tokens+rate*float64(now-at)/1e6); version == 0 {
		tokens = capacity
	}
	if tokens < 1 {
		return false, true, nil
	}
	value := strconv.AppendInt(append(strconv.AppendFloat(nil, tokens-1, 'g', -1, 64), ' '), now, 10)
	if version == 0 {
		c.out = fmt.Appendf(c.out[:0], "add bare:%s 0 3600 %d\r\n%s\r\n", key, len(value), value)
	} else {
		c.out = fmt.Appendf(c.out[:0], "cas bare:%s 0 3600 %d %d\r\n%s\r\n", key, len(value), version, value)
	}
	if _, err := c.Write(c.out); err != nil {
		return false, false, err
	}
	answer, err := c.in.ReadSlice('\n')
	return true, bytes.HasPrefix(answer, []byte("STORED")), err
}

func (c *bareConn) gets(key string) (tokens float64, at int64, version uint64, err error) {
	c.out = append(append(append(c.out[:0], "gets bare:"...), key...), "\r\n"...)
	if _, err := c.Write(c.out); err != nil {
		return 0, 0, 0, err
	}
	line, err := c.in.ReadString('\n') // VALUE KEY FLAGS LENGTH VERSION
	f := strings.Fields(line)
	if err != nil || len(f) != 5 {
		return 0, 0, 0, err
	}
	value, err1 := c.in.ReadString('\n')
	_, err2 := c.in.ReadString('\n') // END
	first, second, _ := strings.Cut(strings.TrimSpace(value), " ")
	tokens, err3 := strconv.ParseFloat(first, 64)
	at, err4 := strconv.ParseInt(second, 10, 64)
	version, err5 := strconv.ParseUint(f[4], 10, 64)
	return tokens, at, version, errors.Join(err1, err2, err3, err4, err5)
}
