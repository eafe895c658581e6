package main

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

const envoyDomain = `
domain: shop
descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]
`

// testerTime bounds the time of schemathesis for one document.
const testerTime = 15 * time.Second

// TestAPIsMatchTheirDocuments has schemathesis generate valid and invalid requests
// from the OpenAPI documents, and chains of requests along their links. No answer may
// be 5xx, have an undocumented status, or violate its schema.
//
// A failure prints the seed, and so does -v; STINT_TEST_SEED repeats a run.
func TestAPIsMatchTheirDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	folder, err := filepath.Abs("../../.cache/servers/schemathesis")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, ".installed")); err != nil {
		t.Skip("needs schemathesis in .cache/servers (run scripts/install-wheels)")
	}
	seed := strconv.Itoa(rand.IntN(1 << 30))
	if given := os.Getenv("STINT_TEST_SEED"); given != "" {
		seed = given
	}
	t.Log("seed", seed)
	p := startServer(t, nil, "--envoy-config", filepath.Dir(writeFile(t, filepath.Join(t.TempDir(), "shop.yaml"), envoyDomain)))
	for _, listener := range []string{"http", "admin"} {
		t.Run(listener, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*testerTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, "python3", "-m", "schemathesis.cli", "run", "http://"+p.addr(listener)+"/openapi.yaml",
				"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance",
				"--max-time", strconv.Itoa(int(testerTime.Seconds())), "--seed", seed, "--continue-on-failure",
				"--suppress-health-check", "all", "--warnings", "off", "--no-color")
			cmd.Dir = t.TempDir() // schemathesis writes files to its working folder
			cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1", "HOME="+cmd.Dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("seed %s: %v\n%s", seed, err, out)
			}
		})
	}
}
