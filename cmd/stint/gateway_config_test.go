package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

// Routes come from the file, and the file from any of the places where settings come from.
func TestRoutesComeFromAFile(t *testing.T) {
	upstream := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", name, r.URL.Path) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	folder := t.TempDir()
	file := writeFile(t, filepath.Join(folder, "gateway.yaml"), fmt.Sprintf(`
upstreams:
  api: {servers: [%s], health: {path: /healthz, interval: 1s}}
  web: %s
routes:
  - {path_prefix: /v1/, strip_prefix: /v1, upstream: api}
  - {upstream: web}
`, upstream("api"), upstream("web")))
	settings := writeFile(t, filepath.Join(folder, "stint.yaml"), "gateway-config: "+file+"\ngateway: 127.0.0.1:0\n")
	for name, start := range map[string]func() *process{
		"flag": func() *process { return startServer(t, nil, "--gateway", "127.0.0.1:0", "--gateway-config", file) },
		"environment": func() *process {
			return startServer(t, []string{"STINT_GATEWAY_CONFIG=" + file}, "--gateway", "127.0.0.1:0")
		},
		"file": func() *process { return startServer(t, nil, "--config", settings) },
	} {
		t.Run(name, func(t *testing.T) {
			addr := start().addr("gateway")
			for path, want := range map[string]string{"/v1/orders": "api /orders", "/index.html": "web /index.html"} {
				res, err := http.Get("http://" + addr + path)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if string(body) != want {
					t.Errorf("%s: %d %s, want %s", path, res.StatusCode, body, want)
				}
			}
		})
	}
}
