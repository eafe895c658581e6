package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
)

// healthRoutes returns the health endpoints. They are open to everyone, because load
// balancers have no token.
func (s *Server) healthRoutes() map[string]httpapi.Route {
	return map[string]httpapi.Route{
		"/healthz":     {Method: http.MethodGet, Handle: s.alive},
		"/readyz":      {Method: http.MethodGet, Handle: s.ready},
		"/healthcheck": {Method: http.MethodGet, Handle: s.ready},
	}
}

// alive answers 200 as long as the process can answer.
func (s *Server) alive(w http.ResponseWriter, _ *http.Request) { writeHealth(w, http.StatusOK, "ok") }

// ready answers 503 before all listeners are open, and while draining. With ?verbose it
// adds the state of the rules and of each store.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	status, text := http.StatusOK, "ok"
	if !s.isReady.Load() {
		status, text = http.StatusServiceUnavailable, "not ready"
	}
	if r.URL.Query().Has("verbose") {
		text += "\n" + s.rules.health() + s.storesHealth()
	}
	writeHealth(w, status, text)
}

// health returns the state of the rules, for ready.
func (r *rules) health() string {
	_, v := r.manager.Current()
	text := fmt.Sprintf("rules: version %d", v.Number)
	if !v.Time.IsZero() {
		text += ", published " + v.Time.UTC().Format(time.RFC3339)
	}
	if r.manager.Stale() {
		text += ", STALE (a local copy that the source has not confirmed)"
	}
	return text + "\nrules source: " + upOrDown(r.manager.Up())
}

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func writeHealth(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}
