package slowclient

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"pgregory.net/rapid"
)

// windowed is a connection with a client that a test controls.
type windowed struct {
	*windowedConn
	t      *testing.T
	client net.Conn
}

func newWindowed(t *testing.T) *windowed {
	t.Helper()
	server, client := net.Pipe()
	w := &windowed{newWindowedConn(server, time.Minute, 4000), t, client}
	go func() { _, _ = io.Copy(io.Discard, w) }()
	go func() { _, _ = io.Copy(io.Discard, client) }()
	t.Cleanup(func() { w.Close(); client.Close() })
	w.says(http2.ClientPreface)
	w.calls(1)
	return w
}

func (w *windowed) says(what string) {
	_, _ = io.WriteString(w.client, what) // fails once the server has closed the connection
	synctest.Wait()
}

func (w *windowed) calls(stream uint32) {
	w.says(framed(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x88}, EndHeaders: true})
	}))
}

func (w *windowed) opens(stream, by uint32) {
	w.says(framed(func(f *http2.Framer) error { return f.WriteWindowUpdate(stream, by) }))
}

// isAnswered writes size bytes of an answer.
func (w *windowed) isAnswered(stream uint32, size int) {
	for ; size > 0; size -= maxFrame {
		_, _ = io.WriteString(w, framed(func(f *http2.Framer) error {
			return f.WriteData(stream, false, make([]byte, min(size, maxFrame)))
		}))
	}
}

// lasts calls meanwhile every half minute for an hour, and checks whether the connection
// is still open then.
func (w *windowed) lasts(want bool, meanwhile func()) {
	w.t.Helper()
	for range 120 {
		meanwhile()
		time.Sleep(30 * time.Second)
	}
	if _, err := w.Conn.Write([]byte("x")); (err == nil) != want {
		w.t.Errorf("a write after an hour: %v; want success: %v", err, want)
	}
}

func framed(write func(*http2.Framer) error) string {
	var b bytes.Buffer
	_ = write(http2.NewFramer(&b, nil)) // the frame is written to a buffer
	return b.String()
}

func TestClosedWindowsEndTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		lasts     bool
		before    func(*windowed)
		meanwhile func(*windowed)
	}{
		"silentWithOpenWindows": {true, func(w *windowed) { w.isAnswered(1, firstWindow-1) }, nil},
		"shutStream":            {false, func(w *windowed) { w.opens(0, 1); w.isAnswered(1, firstWindow) }, nil},
		"shutConnection":        {false, func(w *windowed) { w.opens(1, 1); w.isAnswered(1, firstWindow) }, nil},
		"otherCallsGoOn": {false, func(w *windowed) { w.opens(0, 1<<20); w.isAnswered(1, firstWindow); w.calls(3) }, func(w *windowed) {
			w.opens(3, enough)
			w.isAnswered(3, enough)
		}},
		"trickle":    {false, func(w *windowed) { w.isAnswered(1, firstWindow) }, func(w *windowed) { w.opens(0, 1); w.opens(1, 1); w.isAnswered(1, 1) }},
		"slowReader": {true, func(w *windowed) { w.isAnswered(1, firstWindow) }, func(w *windowed) { w.opens(0, enough); w.opens(1, enough); w.isAnswered(1, enough) }},
		"opensInTime": {true, func(w *windowed) {
			w.isAnswered(1, firstWindow)
			time.Sleep(50 * time.Second)
			w.opens(0, 1)
			w.opens(1, 1)
		}, nil},
		"noCallIsLeft": {true, func(w *windowed) {
			w.isAnswered(1, firstWindow)
			w.says(framed(func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeCancel) }))
		}, nil},
		"answeredInFull": {true, func(w *windowed) {
			w.isAnswered(1, firstWindow)
			_, _ = io.WriteString(w, framed(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true})
			}))
		}, nil},
		"settingsShut": {false, func(w *windowed) {
			w.says(framed(func(f *http2.Framer) error { return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}) }))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWindowed(t)
				c.before(w)
				w.lasts(c.lasts, func() {
					if c.meanwhile != nil {
						c.meanwhile(w)
					}
				})
			})
		})
	}
}

// TestFramesAreFoundInWhateverParts splits a stream of frames anywhere, and compares the
// result with the frames that were written.
func TestFramesAreFoundInWhateverParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := http2.NewFramer(&b, nil)
		var want []frame
		add := func(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) {
			_ = w.WriteRawFrame(kind, flags, stream, payload) // the frame is written to a buffer
			f := frame{kind: kind, flags: flags, stream: stream, size: len(payload)}
			if f.changesWindows() {
				f.payload = payload
			}
			want = append(want, f)
		}
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			add(http2.FrameType(rapid.IntRange(0, 10).Draw(t, "kind")), http2.Flags(rapid.Byte().Draw(t, "flags")),
				rapid.Uint32Max(1<<31-1).Draw(t, "stream"), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "payload"))
		}
		add(http2.FrameSettings, 0, 0, make([]byte, rapid.SampledFrom([]int{0, maxFrame, maxFrame + 1}).Draw(t, "long")))
		var got []frame
		s := frames{skip: 3}
		for rest := append([]byte("abc"), b.Bytes()...); len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 2, 9, 10, 30, 1 << 20}).Draw(t, "part"))
			s.scan(rest[:n], func(f frame) { f.payload = bytes.Clone(f.payload); got = append(got, f) })
			rest = rest[n:]
		}
		if !slices.EqualFunc(got, want, func(a, b frame) bool {
			return a.kind == b.kind && a.flags == b.flags && a.stream == b.stream && a.size == b.size && bytes.Equal(a.payload, b.payload)
		}) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
