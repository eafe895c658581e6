package deadline

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeoutsOfClients(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		t                              Timeouts
		connect, response, idle, total time.Duration
	}{
		{Timeouts{}, 3 * s, 30 * s, 67*s + s/2, 60 * s},
		{Timeouts{Connect: s, Request: 2 * s, Idle: 4 * s, Total: 3 * s}, s, 2 * s, 3 * s, 3 * s},
		{Timeouts{Connect: Off, Request: Off, Idle: Off, Total: Off}, 0, 0, 0, 0},
	} {
		tr := c.t.Transport()
		if tr.TLSHandshakeTimeout != c.connect || tr.ResponseHeaderTimeout != c.response || tr.IdleConnTimeout != c.idle || !tr.ForceAttemptHTTP2 {
			t.Errorf("%+v: %+v", c.t, tr)
		}
		if client := c.t.Client(nil); client.Timeout != c.total {
			t.Errorf("%+v: %v in all", c.t, client.Timeout)
		}
	}
	own := &http.Transport{}
	if (Timeouts{}).Client(own).Transport != own {
		t.Error("the caller's transport was replaced")
	}
}

func TestTimeoutsOfServers(t *testing.T) {
	const s = time.Second
	server := Timeouts{}.Server(http.NotFoundHandler())
	if server.Handler == nil || server.ReadHeaderTimeout != 5*s || server.ReadTimeout != 30*s || server.WriteTimeout != 60*s || server.IdleTimeout != 90*s {
		t.Errorf("%+v", server)
	}
	off := Timeouts{Header: Off, Idle: Off}.Server(nil)
	if off.ReadHeaderTimeout >= 0 || off.IdleTimeout >= 0 { // 0 would be ReadTimeout
		t.Errorf("%+v", off)
	}
}

// A server with these timeouts closes connections that send half a request and
// connections that are idle.
func TestServerLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipes()
		l, _ := n.listen(0)
		server := Timeouts{}.Server(http.NotFoundHandler())
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		for _, c := range []struct {
			sent string
			want time.Duration
		}{
			{"GET / HTTP/1.1\r\nHos", 5 * time.Second},
			{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", 30 * time.Second},
			{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 90 * time.Second},
		} {
			conn, err := n.dial(t.Context(), "", "service-1:80")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			go func() { _, _ = io.WriteString(conn, c.sent) }()
			_, _ = io.Copy(io.Discard, conn)
			if took := time.Since(start); took < c.want || took > c.want+time.Second {
				t.Errorf("after %q it took %v, want %v", c.sent, took, c.want)
			}
			conn.Close()
		}
	})
}

// A client with these timeouts does not wait for a response for ever.
func TestClientLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := pipes()
		l, _ := n.listen(0)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		tr := Timeouts{}.Transport()
		tr.DialContext = n.dial
		defer tr.CloseIdleConnections()
		start := time.Now()
		resp, err := Timeouts{}.Client(tr).Get("http://service-1/")
		if err == nil || time.Since(start) != 30*time.Second {
			t.Errorf("%v, %v after %v", resp, err, time.Since(start))
		}
	})
}
