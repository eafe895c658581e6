package http1client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/http1line"
)

// disturb answers requests for /WAY/ID, each in its way, with the id. It reads no more of a
// request than it has to.
func disturb(ctx context.Context, c *net.TCPConn) {
	defer c.Close()
	wait := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	reader := bufio.NewReader(c)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		way, id, _ := strings.Cut(strings.TrimPrefix(strings.Fields(line)[1], "/"), "/")
		if way == "early" {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(id), id)
			return
		}
		for len(line) > len("\r\n") {
			if line, err = reader.ReadString('\n'); err != nil {
				return
			}
		}
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nId: %s\r\nContent-Length: %d\r\n", id, len(id))
		switch way {
		case "resets":
			_ = c.SetLinger(0)
			return
		case "late": // than the patience, or not
			wait(rand.N(3 * patience))
		case "pauses":
			_, _ = io.WriteString(c, head[:rand.IntN(len(head))])
			wait(rand.N(2 * time.Millisecond))
			fmt.Fprintf(c, "\r\n%s", id) // of a head that is malformed or plain
			return
		case "informs":
			head = "HTTP/1.1 103 Early Hints\r\nId: hint\r\n\r\n" + head
		case "many":
			head += strings.Repeat("More: x\r\n", http1line.MaxKeptFields)
		}
		_, _ = io.WriteString(c, head+"\r\n"+id)
		if way == "closes" {
			return
		}
	}
}

// Requests end, and get their own responses or errors, whatever the server and the owners of
// other requests do meanwhile.
func TestDisturbedRequestsGetTheirOwnResponses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go disturb(t.Context(), c.(*net.TCPConn))
		}
	}()
	tr := newDialing(t)
	tr.options.Informational = func(*http.Request, int, http.Header) {}
	ways := []string{"", "", "", "early", "resets", "late", "pauses", "informs", "many", "closes"}
	var clients sync.WaitGroup
	for client := range 16 {
		clients.Go(func() {
			room := &Room{}
			for i := range 25 {
				exchangeDisturbed(t, tr, room, l.Addr().String(), ways[rand.IntN(len(ways))], fmt.Sprint(client, "-", i))
				room.Release()
			}
		})
	}
	clients.Wait()
}

func exchangeDisturbed(t *testing.T, tr *Transport, room *Room, addr, way, id string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), RoomKey{}, room))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/"+way+"/"+id, http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	if way == "early" || rand.IntN(8) == 0 {
		r.Header.Set("Large", strings.Repeat("x", rand.IntN(1<<20)))
	}
	if rand.IntN(3) == 0 {
		time.AfterFunc(rand.N(3*patience), cancel)
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		if way == "" && ctx.Err() == nil {
			t.Errorf("%s: %v", id, err)
		}
		return
	}
	var closing sync.WaitGroup
	if rand.IntN(4) == 0 {
		closing.Go(func() { _ = res.Body.Close() })
	}
	body, err := io.ReadAll(res.Body)
	closing.Wait()
	_ = res.Body.Close()
	if own := res.Header.Get("Id"); !strings.HasPrefix(id, string(body)) || err == nil && len(body) > 0 && string(body) != id || own != "" && !strings.HasPrefix(id, own) {
		t.Errorf("%s: got %v %q, %v", id, res.Header, body, err)
	}
}
