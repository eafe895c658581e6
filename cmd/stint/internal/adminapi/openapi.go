package adminapi

import (
	_ "embed"
	"net/http"
)

// openapiDocument describes what the API answers.
//
//go:embed openapi.yaml
var openapiDocument []byte

// openapi answers GET /openapi.yaml, to everyone: the document holds nothing of
// this server's.
func openapi(w http.ResponseWriter, _ *http.Request) {
	setHeader(w, "application/yaml")
	_, _ = w.Write(openapiDocument) // the client may be gone
}
