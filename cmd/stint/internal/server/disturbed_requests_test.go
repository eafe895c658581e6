package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/gateway"
)

// disturbed answers in the ways in which exchanges end early, late or more than once. Every
// answer names the client.
func disturbed(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("X-Client")
	w.Header()["X-Answer"] = r.Header["X-Client"]
	switch r.URL.Query().Get("way") {
	case "informs":
		w.Header().Set("X-Hint", id)
		w.WriteHeader(http.StatusEarlyHints)
	case "fails":
		if r.Header.Get("X-Stint-Attempt") == "" && rand.IntN(2) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "breaks":
		fmt.Fprint(w, "part of ", id)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "resets":
		panic(http.ErrAbortHandler)
	case "late":
		select { // longer than a response takes whose context the gateway does not watch
		case <-r.Context().Done():
		case <-time.After(60 * time.Millisecond):
		}
	case "chunks":
		fmt.Fprint(w, "")
		_ = http.NewResponseController(w).Flush()
	case "many":
		for i := range 40 {
			w.Header().Set(fmt.Sprint("X-RateLimit-", i), id)
		}
	case "trails":
		w.Header().Set("Trailer", "X-Trailer")
		defer w.Header().Set("X-Trailer", id)
	}
	fmt.Fprint(w, id, " ", r.URL.Path, " ", r.Header["X-Request-Id"], r.Header["Cookie"], r.Header["X-Only"])
}

// Clients get nothing of each other's requests and responses when upstreams break off, clients
// leave, attempts are repeated and deadlines end.
func TestGatewayKeepsDisturbedRequestsApart(t *testing.T) {
	log, _ := decisionLog(t, decisionlog.Options{Sample: decisionlog.Sample{Share: 1}, Rate: 10_000})
	group := groupOf(t, "api", upstreamOf(t, disturbed)[0].String())
	again := groupOf(t, "again", upstreamOf(t, disturbed)[0].String())
	again.Retry = &gateway.RetryOptions{Attempts: 3, Budget: 1}
	for name, g := range map[string]gateway.GroupOptions{"once": group, "again": again} {
		t.Run(name, func(t *testing.T) {
			s := run(t, Config{DecisionLog: log, Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", GatewayGroups: []gateway.GroupOptions{g}})
			var clients sync.WaitGroup
			for client := range 24 {
				clients.Go(func() { disturb(t, s.Addr("gateway").String(), client) })
			}
			clients.Wait()
		})
	}
}

var ways = []string{"", "", "informs", "fails", "breaks", "resets", "late", "chunks", "trails", "many"}

// disturb sends requests over connections of its own, and leaves some of them.
func disturb(t *testing.T, address string, client int) {
	t.Helper()
	var c net.Conn
	var reader *bufio.Reader
	for i := range 20 {
		if c == nil {
			var err error
			if c, err = net.Dial("tcp", address); err != nil {
				t.Error(err)
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			reader = bufio.NewReader(c)
		}
		id, way := fmt.Sprint("client", client, "-", i), ways[rand.IntN(len(ways))]
		path, method, only := "/free/"+id, "GET", "[]"
		if rand.IntN(10) == 0 {
			path = "/v1/" + id
		}
		var b strings.Builder
		if rand.IntN(8) == 0 {
			method = "DELETE"
		}
		fmt.Fprintf(&b, "%s %s?way=%s HTTP/1.1\r\nHost: a\r\nX-Client: %s\r\n", method, path, way, id)
		if rand.IntN(2) == 0 {
			only = "[" + id + "]"
			fmt.Fprintf(&b, "X-Only: %s\r\n", id)
		}
		fmt.Fprintf(&b, "X-Request-Id: id-%s\r\nCookie: c=%s\r\nX-API-Key: %d\r\n", id, id, client)
		if rand.IntN(6) == 0 {
			fmt.Fprintf(&b, "X-Deadline-Ms: %d\r\n", 1+rand.IntN(80))
		}
		if rand.IntN(20) == 0 { // the gateway drops it, and forwards the request by the reverse proxy of net/http
			fmt.Fprint(&b, "Connection: Upgrade\r\nUpgrade: h2c\r\n")
		}
		_, _ = io.WriteString(c, b.String()+"\r\n")
		if rand.IntN(12) == 0 { // the client leaves
			if rand.IntN(2) == 0 {
				_, _ = reader.Peek(1) // in the middle of the response
			}
			_ = c.Close()
			c = nil
			continue
		}
		if !answered(t, reader, id, fmt.Sprintf("%s %s [id-%s] [c=%s] %s", id, path, id, id, only)) {
			_ = c.Close()
			c = nil
		}
	}
	if c != nil {
		_ = c.Close()
	}
}

// answered reads the response, and reports whether the connection may have another one.
func answered(t *testing.T, reader *bufio.Reader, id, want string) bool {
	t.Helper()
	for {
		res, err := http.ReadResponse(reader, &http.Request{Method: http.MethodGet})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			return false
		}
		body, err := io.ReadAll(res.Body)
		for _, name := range []string{"X-Answer", "X-Hint", "X-Request-Id"} {
			if got := res.Header.Get(name); got != "" && strings.TrimPrefix(got, "id-") != id {
				t.Errorf("%s: %s is %q", id, name, got)
			}
		}
		if got := res.Trailer.Get("X-Trailer"); got != "" && got != id {
			t.Errorf("%s: the trailer is %q", id, got)
		}
		switch {
		case res.StatusCode < http.StatusOK:
			continue
		case errors.Is(err, io.ErrUnexpectedEOF):
			if string(body) != "part of "+id {
				t.Errorf("%s: the part is %q", id, body)
			}
			return false
		case err != nil:
			t.Errorf("%s: %v", id, err)
			return false
		case res.Header.Get("X-Answer") != "" && string(body) != want:
			t.Errorf("%s: the answer is %q, want %q", id, body, want)
		case res.Header.Get("X-Answer") == "" && !strings.Contains(string(body), `"error"`):
			t.Errorf("%s: %d %q", id, res.StatusCode, body)
		}
		return !res.Close
	}
}
