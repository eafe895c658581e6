package slowclient

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/peek"
)

// watched serves a handler on connections that are watched, and returns a connection to it.
func watched(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	if !peek.Supported {
		t.Skip("this system cannot peek at connections")
	}
	s := httptest.NewUnstartedServer(handler)
	s.Listener = Connections(time.Minute, NewAddresses(AddressOptions{}).Listener(s.Listener))
	s.Config.ConnContext = ConnContext(nil)
	s.Config.ReadHeaderTimeout, s.Config.IdleTimeout = 2*lookAfter, 6*lookAfter
	s.Start()
	t.Cleanup(s.Close)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const (
	plainRequest = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	bodyRequest  = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
)

func TestClientThatLeavesEndsItsRequest(t *testing.T) {
	for name, requests := range map[string][]string{
		"first":     {plainRequest},
		"later":     {plainRequest, plainRequest, plainRequest},
		"body":      {bodyRequest},
		"afterBody": {bodyRequest, plainRequest},
	} {
		t.Run(name, func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan struct{})
			served := 0
			c := watched(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if served++; served == len(requests) {
					close(begun)
					<-r.Context().Done()
					close(ended)
				}
			})
			reader := bufio.NewReader(c)
			for i, request := range requests {
				send(t, c, request)
				if i < len(requests)-1 {
					readResponse(t, reader, "")
				}
			}
			<-begun
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Error("the request goes on")
			}
		})
	}
}

// Requests that last longer than lookAfter and the timeouts of the server are answered, and
// so are those that arrive meanwhile.
func TestWatchedConnectionServesOn(t *testing.T) {
	c := watched(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		wait := time.Duration(0)
		if r.URL.Path == "/slow" {
			wait = 8 * lookAfter
		}
		select {
		case <-r.Context().Done():
			t.Errorf("%s was canceled", r.URL)
		case <-time.After(wait):
		}
		_, _ = w.Write(body)
	})
	reader := bufio.NewReader(c)
	slow := strings.Replace(plainRequest, "/ ", "/slow ", 1)
	for range 2 {
		send(t, c, slow)
		readResponse(t, reader, "")
		send(t, c, bodyRequest)
		readResponse(t, reader, "abc")
	}
	send(t, c, slow+plainRequest+slow+bodyRequest)
	for _, want := range []string{"", "", "", "abc"} {
		readResponse(t, reader, want)
	}
	start := time.Now()
	if _, err := reader.ReadByte(); err != io.EOF || time.Since(start) > 10*time.Second {
		t.Errorf("the idle connection ended with %v after %v", err, time.Since(start))
	}
}

func send(t *testing.T, c net.Conn, request string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
}

func readResponse(t *testing.T, reader *bufio.Reader, want string) {
	t.Helper()
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != want {
		t.Fatalf("got %q, %v", body, err)
	}
}
