package server

import (
	"bytes"
	"io"
	"net"
	"path"
	"testing"

	"golang.org/x/net/http2"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// TestShutWindowsEndTheConnection has a client that answers pings but never opens a window for
// answers.
func TestShutWindowsEndTheConnection(t *testing.T) {
	t.Parallel()
	shut := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}
	for _, method := range []string{healthpb.Health_List_FullMethodName, healthpb.Health_Watch_FullMethodName} {
		t.Run(path.Base(method), func(t *testing.T) {
			t.Parallel()
			s := run(t, Config{GRPC: "127.0.0.1:0", StreamTimeout: soon})
			conn := dial(t, s.Addr("grpc"))
			sent := http2.ClientPreface + framed(func(f *http2.Framer) error { return f.WriteSettings(shut) }) + http2CallOf(method)
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if err := answerPings(conn); isTimeout(err) {
				t.Error("the connection stays open")
			}
		})
	}
}

func framed(write func(*http2.Framer) error) string {
	var b bytes.Buffer
	_ = write(http2.NewFramer(&b, nil)) // the frame is written to a buffer
	return b.String()
}

// answerPings answers pings until the connection ends.
func answerPings(conn net.Conn) error {
	framer := http2.NewFramer(conn, conn)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		if f, ok := frame.(*http2.PingFrame); ok && !f.IsAck() {
			if err := framer.WritePing(true, f.Data); err != nil {
				return err
			}
		}
	}
}
