package server

import "net/http"

// healthRoutes are open to everyone: who asks for health has no token.
func (s *Server) healthRoutes() map[string]route {
	return map[string]route{
		"/healthz":     {http.MethodGet, s.alive},
		"/readyz":      {http.MethodGet, s.ready},
		"/healthcheck": {http.MethodGet, s.ready},
	}
}

// alive answers as long as the process can answer at all.
func (s *Server) alive(w http.ResponseWriter, _ *http.Request) { writeHealth(w, http.StatusOK, "ok") }

// ready answers 503 before all listeners are open, and while draining.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.isReady.Load() {
		writeHealth(w, http.StatusServiceUnavailable, "not ready")
		return
	}
	writeHealth(w, http.StatusOK, "ok")
}

func writeHealth(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client may be gone
}
