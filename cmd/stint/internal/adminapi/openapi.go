package adminapi

import (
	_ "embed"
	"net/http"
)

// openapiDocument describes the API.
//
//go:embed openapi.yaml
var openapiDocument []byte

// openapi answers GET /openapi.yaml to everyone: the document is the same for all
// servers.
func openapi(w http.ResponseWriter, _ *http.Request) {
	setHeader(w, "application/yaml")
	_, _ = w.Write(openapiDocument) // the client may be gone
}
