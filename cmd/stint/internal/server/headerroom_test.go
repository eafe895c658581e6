package server

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

// roomOf is that of the check API.
func roomOf(t *testing.T, s *running) *headerRoom {
	t.Helper()
	for _, l := range s.listeners {
		if l.name == "http" {
			return l.service.(*httpListener).room
		}
	}
	t.Fatal("no listener")
	return nil
}

// awaitRoom waits for the room of connections that the server has still to close.
func awaitRoom(t *testing.T, room *headerRoom, want int64) {
	t.Helper()
	for end := time.Now().Add(patience); room.left.Load() != want; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are left, want %d", room.left.Load(), want)
		}
	}
}

// TestSlowLargeHeadersTakeNoMoreThanTheirRoom has connections that send most of
// a header and no more.
func TestSlowLargeHeadersTakeNoMoreThanTheirRoom(t *testing.T) {
	t.Parallel()
	s := run(t, Config{})
	room := roomOf(t, s)
	const few = 100 << 10
	room.left.Store(few)
	large := "X-Large: " + strings.Repeat("x", 40<<10)
	var slow []net.Conn
	for range 3 {
		conn := dial(t, s.Addr("http"))
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n"+large); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
		awaitRoom(t, room, few-int64(len(slow))*(room.holds(len("GET /healthz HTTP/1.1\r\nHost: x\r\n"+large))))
	}
	if got := s.get("http", "/healthz", "X-Large", large); got.status != http.StatusBadRequest {
		t.Errorf("a large one without room: status %d", got.status)
	}
	if got := s.get("http", "/healthz", "X-Small", strings.Repeat("x", 4<<10)); got.status != http.StatusOK {
		t.Errorf("a small one: status %d", got.status)
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	awaitRoom(t, room, few)
	if got := s.get("http", "/healthz", "X-Large", large); got.status != http.StatusOK {
		t.Errorf("a large one with room: status %d", got.status)
	}
	awaitRoom(t, room, few)
}

// holds is what a connection takes that has read n bytes of a header.
func (*headerRoom) holds(n int) int64 { return int64(n) - freeHeaderBytes }

func TestRoomIsGivenBackBetweenRequests(t *testing.T) {
	t.Parallel()
	s := run(t, Config{})
	room := roomOf(t, s)
	conn := dial(t, s.Addr("http"))
	r := bufio.NewReader(conn)
	body := strings.Repeat(" ", 100<<10) // which holds nothing
	for range 3 {
		if _, err := fmt.Fprintf(conn, "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nX-Large: %s\r\n\r\n%s", len(body), strings.Repeat("x", 60<<10), body); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d, %v", answer.StatusCode, err)
		}
		awaitRoom(t, room, headerRoomBytes)
	}
}

// TestHTTP2TakesRoomByRequest has one connection of many requests, and bytes
// that are no header.
func TestHTTP2TakesRoomByRequest(t *testing.T) {
	t.Parallel()
	s := run(t, Config{})
	room := roomOf(t, s)
	conn := dial(t, s.Addr("http"))
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
	awaitRoom(t, room, headerRoomBytes)

	var newer http.Protocols
	newer.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &newer}
	defer transport.CloseIdleConnections()
	for left, want := range map[int64]int{1 << 10: http.StatusRequestHeaderFieldsTooLarge, headerRoomBytes: http.StatusOK} {
		room.left.Store(left)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("http", "/healthz"), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Large", strings.Repeat("x", 40<<10))
		if got := send(t, &http.Client{Transport: transport}, request); got.status != want {
			t.Errorf("with room for %d: status %d", left, got.status)
		}
		awaitRoom(t, room, left)
	}
}
