package redisstore

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// BenchmarkScript measures what the scripts cost the server. It sends prepared calls of
// several keys, with several calls in flight. One b.N is one check. The server's own
// processor time shows what one core can do, however busy the machine is.
func BenchmarkScript(b *testing.B) {
	shared := []stint.Limit{limitOf(b, stint.PerMinute(100)), limitOf(b, stint.PerSecond(1000))}
	var own []stint.Limit
	for i := range 32 {
		own = append(own, limitOf(b, stint.PerMinute(int64(100+i))))
	}
	window := []stint.Limit{limitOf(b, stint.Spec{Algorithm: stint.FixedWindow, Limit: 1_000_000, Window: 60e9})}
	counter := []stint.Limit{limitOf(b, stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 1_000_000, Window: 60e9})}
	for _, c := range []struct {
		name   string
		limits []stint.Limit
		keys   int
		plain  bool
	}{
		{"bucket-1", shared[:1], 1, true},
		{"bucket-32", shared[:1], 32, true},
		{"bucket-32-two-limits", shared, 32, true},
		{"bucket-32-limit-each", own, 32, true},
		{"bucket-128", shared[:1], 128, true},
		{"take-bucket-1", shared[:1], 1, false},
		{"take-bucket-32", shared[:1], 32, false},
		{"window-1", window, 1, true},
		{"window-32", window, 32, true},
		{"take-window-1", window, 1, false},
		{"take-window-32", window, 32, false},
		{"counter-1", counter, 1, true},
		{"counter-32", counter, 32, true},
		{"take-counter-1", counter, 1, false},
		{"take-counter-32", counter, 32, false},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkScript(b, c.limits, c.keys, c.plain) })
	}
}

func benchmarkScript(b *testing.B, limits []stint.Limit, keys int, plain bool) {
	b.Helper()
	server := redistest.Server(b)
	e := encodingOf(b, Options{})
	requests := requestsOf(e, limits, keys, plain)
	for _, s := range e.scripts() {
		server.Must("SCRIPT", "LOAD", s.text)
	}
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	before := serverTime(b, server)
	calls := (b.N + keys - 1) / keys
	b.ResetTimer()
	pipeline(b, conn, requests, calls)
	b.StopTimer()
	used := serverTime(b, server) - before
	b.ReportMetric(used*1e9/float64(calls*keys), "server-ns/check")
	b.ReportMetric(float64(calls*keys)/used, "checks/core-s")
	b.ReportMetric(float64(calls*keys)/b.Elapsed().Seconds(), "checks/s")
}

// BenchmarkLogScript measures what checks of one log cost the server. All units of the log
// were admitted at different times. Each check is admitted just after the oldest unit has
// left the window, or denied.
func BenchmarkLogScript(b *testing.B) {
	for _, units := range []int64{10, 10_000} {
		for _, denied := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/denied=%v", units, denied), func(b *testing.B) { benchmarkLogScript(b, units, denied) })
		}
	}
}

func benchmarkLogScript(b *testing.B, units int64, denied bool) {
	b.Helper()
	server := redistest.Server(b)
	now, apart := int64(1_700_000_000_000_000), 1_000_000/units
	e := encodingOf(b, Options{Clock: func() time.Time { return time.UnixMicro(now) }, KeepFor: time.Hour})
	server.Must("SCRIPT", "LOAD", e.take.text)
	limit := limitOf(b, stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: units, Window: time.Second})
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	take := func(calls int) {
		requests := make([][]byte, calls)
		for i := range requests {
			batch := e.newBatch()
			batch.add([]stint.Claim{{Key: "user:12345678", Limit: limit, Cost: 1}}, 0)
			requests[i] = wire(batch.invocation())
			now += apart
		}
		pipeline(b, conn, requests, calls)
	}
	take(int(units) - 1)
	if denied {
		apart = 0
		take(1)
	}
	before := serverTime(b, server)
	b.ResetTimer()
	take(b.N)
	b.StopTimer()
	b.ReportMetric((serverTime(b, server)-before)*1e9/float64(b.N), "server-ns/check")
}

// requestsOf returns encoded calls of the script over about 64,000 keys.
func requestsOf(e *encoding, limits []stint.Limit, keys int, plain bool) (requests [][]byte) {
	for call := range 64_000 / keys {
		batch := e.newBatch()
		for i := range keys {
			n := uint32(call*keys+i) * 2654435761 % 100_000_000 // all different, in no order
			c := stint.Claim{Key: fmt.Sprintf("user:%08d", n), Limit: limits[i%len(limits)], Cost: 1}
			batch.add([]stint.Claim{c}, 0)
		}
		batch.plain = plain
		requests = append(requests, wire(batch.invocation()))
	}
	return requests
}

// wire returns an encoded call.
func wire(i invocation) []byte {
	args := append([]string{"EVALSHA", i.script.sha, strconv.Itoa(len(i.keys))}, append(i.keys, i.args...)...)
	var r bytes.Buffer
	fmt.Fprintf(&r, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&r, "$%d\r\n%s\r\n", len(a), a)
	}
	return r.Bytes()
}

// pipeline keeps 8 calls in flight.
func pipeline(b *testing.B, conn net.Conn, requests [][]byte, calls int) {
	b.Helper()
	room := make(chan struct{}, 8)
	go func() {
		for i := range calls {
			room <- struct{}{}
			if _, err := conn.Write(requests[i%len(requests)]); err != nil {
				return
			}
		}
	}()
	r := bufio.NewReaderSize(conn, 1<<16)
	for range calls {
		line, err := r.ReadString('\n')
		if err != nil || line[0] != '$' {
			b.Fatal(line, err)
		}
		size, _ := strconv.Atoi(line[1 : len(line)-2])
		if _, err := r.Discard(size + 2); err != nil && err != io.EOF {
			b.Fatal(err)
		}
		<-room
	}
}

// serverTime returns the processor time of the server so far, in seconds.
func serverTime(b *testing.B, server *redistest.Process) (seconds float64) {
	b.Helper()
	for _, field := range []string{"used_cpu_sys_main_thread", "used_cpu_user_main_thread"} {
		text, err := server.Info(field)
		if err != nil {
			b.Fatal(err)
		}
		part, err := strconv.ParseFloat(text, 64)
		if err != nil {
			b.Fatal(err)
		}
		seconds += part
	}
	return seconds
}

func limitOf(tb testing.TB, s stint.Spec) stint.Limit {
	tb.Helper()
	l, err := s.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func encodingOf(tb testing.TB, o Options) *encoding {
	tb.Helper()
	e, err := newEncoding(&o)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}
