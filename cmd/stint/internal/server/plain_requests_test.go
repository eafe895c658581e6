package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
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

// Clients get and send nothing of each other's requests, although the gateway uses memory
// again for the next request, whosever it is.
func TestGatewayKeepsRequestsApart(t *testing.T) {
	upstreams := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", r.Header.Get("X-Client"))
		w.Header().Set("X-Request-Header", fmt.Sprint(len(r.Header), r.Header["X-Only"], r.Header["Cookie"], r.Header["X-Request-Id"], r.Header["Traceparent"] != nil))
		fmt.Fprint(w, r.URL, string(body))
	})
	s := run(t, Config{Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", Upstreams: upstreams})
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer c.CloseIdleConnections()
			for i := range 100 {
				id := fmt.Sprint(client, "-", i)
				method, body := http.MethodGet, ""
				if (client+i)%5 == 0 {
					method, body = http.MethodPost, "body of "+id
				}
				r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr("gateway").String()+"/free/"+id+"?q="+id, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				want := []string(nil)
				if (client+i)%2 == 0 {
					want = []string{id}
					r.Header.Set("X-Only", id)
				}
				r.Header.Set("X-Client", id)
				r.Header.Set("X-Request-Id", "id-"+id)
				r.Header.Set("Cookie", "c="+id)
				res, err := c.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				got, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				header := fmt.Sprint(want, []string{"c=" + id}, []string{"id-" + id}, true)
				_, seen, _ := strings.Cut(res.Header.Get("X-Request-Header"), " ")
				if text := "/free/" + id + "?q=" + id + body; string(got) != text || res.Header.Get("X-Answer") != id || seen != header || res.Header.Get("X-Request-Id") != "id-"+id {
					t.Errorf("%s: %d, the answer is %q with %q, want %q with %q", id, res.StatusCode, got, res.Header, text, header)
				}
			}
		})
	}
	clients.Wait()
}
