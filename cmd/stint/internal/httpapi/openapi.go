package httpapi

import (
	_ "embed"
	"net/http"
)

// openapiDocument describes what the http listener answers.
//
//go:embed openapi.yaml
var openapiDocument []byte

// openapi answers with the document, which holds nothing of this server's.
func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/yaml")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openapiDocument) // the client may be gone
}
