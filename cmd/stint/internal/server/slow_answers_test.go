package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/stintdev/stint/cmd/stint/internal/slowclient"
)

// TestShutWindowsEndTheAnswer has a client that answers pings but never opens a window for
// answers.
func TestShutWindowsEndTheAnswer(t *testing.T) {
	t.Parallel()
	shut := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}
	short := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }
	long := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20)) }
	flushed := func(w http.ResponseWriter, r *http.Request) {
		short(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, c := range map[string]struct {
		listener, path string
		upstream       http.HandlerFunc
	}{
		"a short answer of the gateway":   {"gateway", "/", short},
		"a long answer of the gateway":    {"gateway", "/", long},
		"a flushed answer of the gateway": {"gateway", "/", flushed},
		"an answer of admin":              {"admin", "/metrics", short},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hurried(t, c.upstream)
			conn := dial(t, s.Addr(c.listener))
			sent := http2.ClientPreface + framed(func(f *http2.Framer) error {
				return errors.Join(f.WriteSettings(shut), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: http2Get(c.path), EndHeaders: true, EndStream: true}))
			})
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			framer := http2.NewFramer(conn, conn)
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := frame.(*http2.RSTStreamFrame); ok {
					return
				}
			}
		})
	}
}

// framePart is the size of the parts in which an answer is written.
const framePart = 16 << 10

// asking is a client of HTTP/2 that returns each frame to the test.
type asking struct {
	*http2.Framer
	t *testing.T
}

// frameClient opens a connection whose streams begin with a window.
func frameClient(t *testing.T, addr net.Addr, window uint32) *asking {
	t.Helper()
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	a := &asking{http2.NewFramer(conn, conn), t}
	a.must(a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return a
}

func (a *asking) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// get sends a request on a stream, and reads each part of the answer after a pause.
func (a *asking) get(stream uint32, pause time.Duration) (size int) {
	a.t.Helper()
	a.must(a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: http2Get("/"), EndHeaders: true, EndStream: true}))
	for {
		part, ok := a.next().(*http2.DataFrame)
		if !ok {
			continue
		}
		size += len(part.Data())
		if part.StreamEnded() {
			return size
		}
		<-time.After(pause)
		if n := uint32(len(part.Data())); n > 0 {
			a.must(errors.Join(a.WriteWindowUpdate(0, n), a.WriteWindowUpdate(stream, n)))
		}
	}
}

// next returns the next frame that is not a reset of a stream.
func (a *asking) next() http2.Frame {
	a.t.Helper()
	f, err := a.ReadFrame()
	a.must(err)
	if f, reset := f.(*http2.RSTStreamFrame); reset {
		a.t.Fatal(f)
	}
	return f
}

// TestSlowReadersOfGreatPartsAreServed has a handler that writes more at once than its client
// reads within the timeout of one part.
func TestSlowReadersOfGreatPartsAreServed(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: slowclient.Answers(time.Second, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	}))}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	if got := frameClient(t, l.Addr(), framePart).get(1, 25*time.Millisecond); got != size {
		t.Errorf("%d bytes of %d", got, size)
	}
}

// TestAnswersThatEndedAreNotReset waits for longer than the timeout of one part of an answer.
func TestAnswersThatEndedAreNotReset(t *testing.T) {
	t.Parallel()
	s := hurried(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
	a := frameClient(t, s.Addr("gateway"), framePart)
	for stream := range uint32(90) {
		if size := a.get(2*stream+1, 0); size != 1 {
			t.Fatal(size)
		}
	}
	<-time.After(4 * soon)
	a.must(a.WritePing(false, [8]byte{}))
	for {
		if f, ok := a.next().(*http2.PingFrame); ok && f.IsAck() {
			return
		}
	}
}

// http2Get is the header block of a request to this machine.
func http2Get(path string) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path}} {
		_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // the field is written to a buffer
	}
	return block.Bytes()
}

// TestSilentAnswersGoOn has an upstream that writes rarely, for longer than the time that a
// client may take to accept a part.
func TestSilentAnswersGoOn(t *testing.T) {
	t.Parallel()
	const parts = 3
	s := hurried(t, func(w http.ResponseWriter, _ *http.Request) {
		for range parts {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-time.After(3 * soon)
		}
	})
	newer := new(http.Protocols)
	newer.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: newer}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://" + s.Addr("gateway").String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || len(body) != parts {
		t.Errorf("%q, %v", body, err)
	}
}
