package resp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// looped is a connection whose client repeats the same commands, without the cost of a
// socket.
type looped struct {
	net.Conn
	sent []byte
	at   int
	left int // repetitions left
}

func (l *looped) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.sent[l.at:])
	if l.at += n; l.at == len(l.sent) {
		l.at, l.left = 0, l.left-1
	}
	return n, nil
}

func (*looped) Write(p []byte) (int, error)      { return len(p), nil }
func (*looped) SetReadDeadline(time.Time) error  { return nil }
func (*looped) SetWriteDeadline(time.Time) error { return nil }
func (*looped) Close() error                     { return nil }

// pipeline returns n checks of many keys.
func pipeline(n int) []byte {
	var b strings.Builder
	for i := range n {
		b.WriteString(words(fmt.Sprintf("CL.THROTTLE user:%08d 15 30 60", i*7919)))
	}
	return []byte(b.String())
}

func serveLoop(s *Server, sent []byte, rounds int) {
	c := &conn{server: s, net: &looped{sent: sent, left: rounds}, proto: 2, authorized: true}
	c.serve()
}

func BenchmarkCommands(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("pipeline=%d", n), func(b *testing.B) {
			s := New(Options{Decider: decide.New(decide.Options{Store: stint.NewMemory(stint.MemoryOptions{})})})
			b.ReportAllocs()
			serveLoop(s, pipeline(n), max(1, b.N/n))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
		})
	}
}

// BenchmarkSocket runs a client and the server on one loopback connection. With -cpu 1
// both share a core.
func BenchmarkSocket(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("pipeline=%d", n), func(b *testing.B) { benchmarkSocket(b, n) })
	}
}

func benchmarkSocket(b *testing.B, n int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{Decider: decide.New(decide.Options{Store: stint.NewMemory(stint.MemoryOptions{})})})
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	sent, answers := pipeline(n), make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(sent); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < n; { // answers, each of which has one '*'
			m, err := conn.Read(answers)
			if err != nil {
				b.Fatal(err)
			}
			got += bytes.Count(answers[:m], []byte{'*'})
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "checks/s")
}
