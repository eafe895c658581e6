package slowclient

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

const patience = 10 * time.Second

// roomServer is a server with a HeaderRoom, which answers 200 to every request.
type roomServer struct {
	t    *testing.T
	addr string
	room *HeaderRoom
}

func newRoomServer(t *testing.T) *roomServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	room := NewHeaderRoom()
	server := &http.Server{Protocols: new(http.Protocols), MaxHeaderBytes: MaxHeaderBytes, ConnState: room.ConnState,
		Handler: room.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(room.Listener(l)) }()
	t.Cleanup(func() { _ = server.Close() })
	return &roomServer{t, l.Addr().String(), room}
}

func (s *roomServer) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// get sends one request with a header, and returns the status of its answer.
func (s *roomServer) get(client *http.Client, name, value string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.addr+"/", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set(name, value)
	answer, err := client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// awaitLeft waits until want bytes are left: the server may still have to close a
// connection.
func (s *roomServer) awaitLeft(want int64) {
	s.t.Helper()
	for end := time.Now().Add(patience); s.room.left.Load() != want; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%d bytes are left, want %d", s.room.left.Load(), want)
		}
	}
}

// TestSlowLargeHeadersTakeNoMoreThanTheirRoom has connections that send most of a header
// and then nothing.
func TestSlowLargeHeadersTakeNoMoreThanTheirRoom(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t)
	const few = 100 << 10
	s.room.left.Store(few)
	large := "X-Large: " + strings.Repeat("x", 40<<10)
	var slow []net.Conn
	for range 3 {
		conn := s.dial()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+large); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
		s.awaitLeft(few - int64(len(slow))*(int64(len("GET / HTTP/1.1\r\nHost: x\r\n"+large))-freeHeaderBytes))
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	if got := s.get(client, "X-Large", large); got != http.StatusBadRequest {
		t.Errorf("a large one without room: status %d", got)
	}
	if got := s.get(client, "X-Small", strings.Repeat("x", 4<<10)); got != http.StatusOK {
		t.Errorf("a small one: status %d", got)
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	s.awaitLeft(few)
	if got := s.get(client, "X-Large", large); got != http.StatusOK {
		t.Errorf("a large one with room: status %d", got)
	}
	s.awaitLeft(few)
}

func TestRoomIsReleasedBetweenRequests(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t)
	conn := s.dial()
	r := bufio.NewReader(conn)
	body := strings.Repeat(" ", 100<<10) // a body takes no room
	for range 3 {
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nX-Large: %s\r\n\r\n%s", len(body), strings.Repeat("x", 60<<10), body); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("status %d, %v", answer.StatusCode, err)
		}
		s.awaitLeft(headerRoomBytes)
	}
}

// TestHTTP2TakesRoomByRequest has one connection with many requests, and with bytes that
// belong to no header.
func TestHTTP2TakesRoomByRequest(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t)
	conn := s.dial()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for range 2_000 { // 34 KB
		if err := framer.WritePing(false, [8]byte{}); err != nil {
			t.Fatal(err)
		}
	}
	for pongs := 0; pongs < 2_000; {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if f.Header().Type == http2.FramePing {
			pongs++
		}
	}
	s.awaitLeft(headerRoomBytes)

	var newer http.Protocols
	newer.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &newer}
	defer transport.CloseIdleConnections()
	for left, want := range map[int64]int{1 << 10: http.StatusRequestHeaderFieldsTooLarge, headerRoomBytes: http.StatusOK} {
		s.room.left.Store(left)
		if got := s.get(&http.Client{Transport: transport}, "X-Large", strings.Repeat("x", 40<<10)); got != want {
			t.Errorf("with room for %d: status %d", left, got)
		}
		s.awaitLeft(left)
	}
}
