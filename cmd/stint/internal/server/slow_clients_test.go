package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
)

// soon is the timeout of the listeners in these tests.
const soon = 50 * time.Millisecond

// hurried is a server with short timeouts on all listeners.
func hurried(t *testing.T, endless http.HandlerFunc) *running {
	t.Helper()
	return run(t, Config{
		GRPC: "127.0.0.1:0", RESP: "127.0.0.1:0", Gateway: "127.0.0.1:0", Upstreams: upstreamOf(t, endless), Profiling: true,
		HeaderTimeout: soon, BodyTimeout: soon, StreamTimeout: soon, DrainTimeout: time.Second,
	})
}

// TestReadersThatReadNothingAreCut requests more data than the sockets hold and reads none of
// it.
func TestReadersThatReadNothingAreCut(t *testing.T) {
	t.Parallel()
	part := bytes.Repeat([]byte("x"), 32<<10)
	ended := make(chan struct{}, 2)
	s := hurried(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		for r.Context().Err() == nil {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	for name, ask := range map[string]string{
		"gateway": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"http":    "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n",
		"admin":   "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"resp":    strings.Repeat("COMMAND DOCS\r\n", 100),
		"grpc":    strings.Repeat(http2Settings(), 1000), // each request is answered
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, s.Addr(name))
			if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
				t.Fatal(err)
			}
			if name == "grpc" {
				_, _ = io.WriteString(conn, http2Flood(t)) // a failed write means that the server has closed the connection
			}
			writeUntilCut(t, conn, ask)
			if name != "gateway" {
				return
			}
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("the gateway still reads from its upstream")
			}
		})
	}
}

// writeUntilCut sends requests until the server closes the connection.
func writeUntilCut(t *testing.T, conn net.Conn, ask string) {
	t.Helper()
	for {
		if _, err := io.WriteString(conn, ask); err != nil {
			if isTimeout(err) {
				t.Fatal("the connection stays open")
			}
			return
		}
	}
}

// TestWritersThatWriteNothingAreCut sends a part of a request, and reads until the server
// closes.
func TestWritersThatWriteNothingAreCut(t *testing.T) {
	t.Parallel()
	s := hurried(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	half := "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
	for name, c := range map[string]struct{ listener, sent string }{
		"nothing to http":                  {"http", ""},
		"half a body to http":              {"http", half},
		"half a body to admin":             {"admin", strings.Replace(half, "/v1/take", "/v1/reset", 1)},
		"half a header to the gateway":     {"gateway", "GET / HTTP/1.1\r\nHost: x\r\n"},
		"half a body to the gateway":       {"gateway", half},
		"half of what the gateway refuses": {"gateway", strings.Replace(half, "/v1/take", "/../x", 1)},
		"half a call by HTTP/1.1":          {"gateway", strings.Replace(half, "\r\n\r\n", "\r\nContent-Type: application/grpc\r\n\r\n", 1)},
		"half of what http does not know":  {"http", strings.Replace(half, "/v1/take", "/x", 1)},
		"half of what admin does not know": {"admin", strings.Replace(half, "/v1/take", "/x", 1)},
		"half a chunk to the gateway":      {"gateway", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"},
		"nothing to grpc":                  {"grpc", ""},
		"half a preface to grpc":           {"grpc", http2.ClientPreface[:10]},
		"a preface to grpc and no frame":   {"grpc", http2.ClientPreface},
		"half a frame of settings to grpc": {"grpc", http2Preface()[:len(http2.ClientPreface)+4]},
		"half a call to grpc":              {"grpc", http2Preface() + http2Call()[:20]},
		"half a message to grpc":           {"grpc", http2Preface() + http2Call()[:len(http2Call())-5]},
		"half a command to resp":           {"resp", "*5\r\n$11\r\nCL.THR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, s.Addr(c.listener))
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

func TestWritersThatStopGetAnError(t *testing.T) {
	t.Parallel()
	s := hurried(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	newer := new(http.Protocols)
	newer.SetUnencryptedHTTP2(true)
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": {Protocols: newer}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, writer := io.Pipe()
			defer writer.Close()
			go func() { _, _ = io.WriteString(writer, "ab") }()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url("gateway", "/"), body)
			if err != nil {
				t.Fatal(err)
			}
			got := send(t, &http.Client{Transport: transport}, request)
			if got.status != http.StatusRequestTimeout || !strings.Contains(got.body, "REQUEST_TIMEOUT") {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			transport.CloseIdleConnections()
		})
	}
}

// TestAClientThatWaitsFor100ContinueIsDeniedAtOnce sends no body before it gets 100 Continue.
func TestAClientThatWaitsFor100ContinueIsDeniedAtOnce(t *testing.T) {
	t.Parallel()
	s := run(t, Config{
		Rules:   rulesFile(t, "rules:\n  - {id: none, deny_all: true}\n"),
		Gateway: "127.0.0.1:0", Upstreams: upstreamOf(t, func(http.ResponseWriter, *http.Request) {}),
	})
	conn := dial(t, s.Addr("gateway"))
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusTooManyRequests || !answer.Close {
		t.Errorf("status %d, closes: %v", answer.StatusCode, answer.Close)
	}
}

// TestSteadyClientsAreServed sends a body and reads an answer for longer than
// any timeout, each part in time.
func TestSteadyClientsAreServed(t *testing.T) {
	t.Parallel()
	s := run(t, Config{Gateway: "127.0.0.1:0", StreamTimeout: time.Second, Upstreams: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		buffer := make([]byte, 1)
		for {
			n, err := r.Body.Read(buffer)
			_, _ = w.Write(buffer[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	})})
	conn := dial(t, s.Addr("gateway"))
	const parts = 12
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", parts); err != nil {
		t.Fatal(err)
	}
	for range parts {
		<-time.After(time.Second / 10)
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	answer := make([]byte, 0, 4<<10)
	for !bytes.Contains(answer, []byte("\r\n0\r\n\r\n")) {
		part := make([]byte, 512)
		n, err := conn.Read(part)
		answer = append(answer, part[:n]...)
		if err != nil {
			t.Fatalf("%v after %q", err, answer)
		}
	}
	_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	if n := bytes.Count(body, []byte("x")); !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) || n != parts {
		t.Errorf("%d bytes of %d: %q", n, parts, answer)
	}
}

// http2Settings is a SETTINGS frame that changes no setting.
func http2Settings() string {
	var b bytes.Buffer
	_ = http2.NewFramer(&b, nil).WriteSettings() // the frame is written to a buffer
	return b.String()
}

// http2Preface is the beginning of every HTTP/2 connection.
func http2Preface() string { return http2.ClientPreface + http2Settings() }

// http2Call is the frames of one call of Envoy's service.
func http2Call() string {
	return http2CallOf(ratelimitpb.RateLimitService_ShouldRateLimit_FullMethodName)
}

// http2CallOf returns the frames of a call with the same message, followed by the given bytes.
func http2CallOf(method string) string {
	message, err := proto.Marshal(ofUser("ann", 1))
	if err != nil {
		panic(err)
	}
	data := append([]byte{0, 0, 0, byte(len(message) >> 8), byte(len(message))}, message...)
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: http2Headers(method), EndHeaders: true}) // the frame is written to a buffer
	_ = f.WriteData(1, true, data)
	return b.String()
}

// http2Flood opens all windows, and asks a thousand times for a descriptor of
// more than ten kilobytes.
func http2Flood(t *testing.T) string {
	t.Helper()
	message, err := proto.Marshal(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: "google/protobuf/descriptor.proto"},
	})
	if err != nil {
		t.Fatal(err)
	}
	message = append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
	const widest = 1<<31 - 1
	return http2.ClientPreface + framed(func(f *http2.Framer) error {
		_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: widest}) // the frame is written to a buffer
		_ = f.WriteWindowUpdate(0, widest-(64<<10-1))
		_ = f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: http2Headers(reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName), EndHeaders: true,
		})
		for range 1000 {
			_ = f.WriteData(1, false, message)
		}
		return nil
	})
}

func http2Headers(method string) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0) // so that each block stands alone
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", method},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // the field is written to a buffer
	}
	return block.Bytes()
}
