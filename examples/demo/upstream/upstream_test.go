package upstream

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestGreetingTellsWhatTheGatewaySaid(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", http.NoBody)
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	Handler(time.Second).ServeHTTP(w, r)
	var got map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got["path"] != "/a" || got["client"] != "192.0.2.1" {
		t.Errorf("got %s, %v", w.Body, err)
	}
}

func TestEchoReturnsTheBody(t *testing.T) {
	w := httptest.NewRecorder()
	body := strings.Repeat("word", 50_000)
	Handler(time.Second).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/echo", strings.NewReader(body)))
	if w.Body.String() != body {
		t.Errorf("%d bytes came back of %d", w.Body.Len(), len(body))
	}
}

func TestEventsEndAfterTheNumberAskedFor(t *testing.T) {
	s := httptest.NewServer(Handler(time.Millisecond))
	defer s.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/events?n=3", http.NoBody)
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ids := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "id: ") {
			ids++
		}
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || ids != 3 {
		t.Errorf("got %d events and %v", ids, err)
	}
}
