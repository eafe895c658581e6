package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// The middleware of package httplimit lets a WebSocket through. The tests of its own
// module may import no WebSocket client.
func TestWebSocketPassesThrough(t *testing.T) {
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "sockets", stint.MustParseLimit("2/h"))
	if err != nil {
		t.Fatal(err)
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(limited.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		kind, text, err := c.Read(r.Context())
		if err == nil {
			err = c.Write(r.Context(), kind, append([]byte("echo "), text...))
		}
		if err != nil {
			t.Error(err)
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
	})))
	defer s.Close()
	ctx := t.Context()
	for range 2 {
		c, response, err := websocket.Dial(ctx, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := response.Header.Get("X-RateLimit-Limit"); got != "2" {
			t.Errorf("X-RateLimit-Limit of the upgrade: %q", got)
		}
		if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, text, err := c.Read(ctx); string(text) != "echo hello" || err != nil {
			t.Errorf("read %q, %v", text, err)
		}
		_ = c.CloseNow()
	}
	if _, response, err := websocket.Dial(ctx, s.URL, nil); err == nil || response.StatusCode != 429 {
		t.Errorf("the third connection: %v, %v; want 429", response, err)
	}
}
