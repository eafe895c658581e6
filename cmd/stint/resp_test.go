package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeSpeaksTheRedisProtocol queries the program with a password, and ends it
// while a connection is open.
func TestServeSpeaksTheRedisProtocol(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startServer(t, nil, "--resp", "127.0.0.1:0", "--http-token-file", token, "--drain-delay", "0s")
	conn, err := net.Dial("tcp", p.addr("resp"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, "PING\r\nAUTH s3cret\r\nCL.THROTTLE user123 15 30 60\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	want := []string{"-NOAUTH Authentication required.", "+OK", "*5", ":0", ":16", ":15", ":-1", ":2", "+PONG"}
	reader := bufio.NewReader(conn)
	for _, w := range want {
		if line, err := reader.ReadString('\n'); err != nil || strings.TrimSpace(line) != w {
			t.Fatalf("%q, %v, want %q", line, err, w)
		}
	}
	p.signal(syscall.SIGTERM)
	if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if status := p.exit(); status != 0 {
		t.Errorf("status %d", status)
	}
}
