// Package upstream is the small application that the demo puts behind the
// gateway. It shows what a gateway must pass through: plain answers, bodies that
// are echoed while they arrive, and events that are sent one by one.
package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Handler serves / (a greeting), /echo (the request's body) and /events (the time
// as server-sent events, one each interval until the client leaves, or the number
// of events in ?n=).
func Handler(interval time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", greet)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { events(w, r, interval) })
	return mux
}

func greet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{ //nolint:errchkjson // strings always encode; the client may be gone
		"hello":      "from behind the gateway",
		"path":       r.URL.Path,
		"client":     r.Header.Get("X-Forwarded-For"),
		"request_id": r.Header.Get("X-Request-Id"),
	})
}

func echo(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	_ = out.EnableFullDuplex() // an error: HTTP/2, which is always full duplex
	w.Header().Set("Content-Type", "application/octet-stream")
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		if _, gone := w.Write(buf[:n]); gone != nil || out.Flush() != nil || err != nil {
			return
		}
	}
}

func events(w http.ResponseWriter, r *http.Request, interval time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	most, _ := strconv.Atoi(r.URL.Query().Get("n")) // 0: no limit
	for n := 1; send(w, n); n++ {
		if n == most {
			return
		}
		select {
		case <-ticks.C:
		case <-r.Context().Done():
			return
		}
	}
}

// send sends one event and reports whether the client is still connected.
func send(w io.Writer, n int) bool {
	_, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n, time.Now().UTC().Format(time.RFC3339Nano))
	flusher, ok := w.(http.Flusher)
	if ok {
		flusher.Flush()
	}
	return err == nil
}
