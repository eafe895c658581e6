package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestShutWindowsEndTheAnswer has a client that answers pings, and lets nothing
// be written of the answers to its requests.
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

// http2Get is the header block of a request to this machine.
func http2Get(path string) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path}} {
		_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // to a buffer
	}
	return block.Bytes()
}

// TestSilentAnswersGoOn has an upstream that says something now and then, over
// a longer time than a client may take nothing.
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
