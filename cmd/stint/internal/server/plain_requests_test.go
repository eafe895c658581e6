package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A plain request ends when its client leaves, and so does one whose connection has changed
// from the gateway's own server to that of net/http.
func TestGatewayNoticesThatAClientLeaves(t *testing.T) {
	for name, requests := range map[string][]string{
		"plain":     {"GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"later":     {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"handed":    {"GET / HTTP/1.1\r\nHost: a\r\nExpires: \xe4\r\n\r\n"},
		"handedOff": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan struct{})
			served := 0
			upstreams := upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if served++; served == len(requests) {
					close(begun)
					<-r.Context().Done()
					close(ended)
				}
			})
			s := run(t, Config{Gateway: "127.0.0.1:0", Upstreams: upstreams})
			c, err := net.Dial("tcp", s.Addr("gateway").String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			r := bufio.NewReader(c)
			for i, request := range requests {
				if _, err := io.WriteString(c, request); err != nil {
					t.Fatal(err)
				}
				if i == len(requests)-1 {
					break
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
			}
			<-begun
			_ = c.Close()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("the request goes on at the upstream")
			}
		})
	}
}
