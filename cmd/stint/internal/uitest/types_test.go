//go:build linux

package uitest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The client of the pages is generated from the OpenAPI document. scripts/check-ui compares all of
// it, and needs Node.js; this test needs nothing, so it also runs before a commit.
func TestTypesAreOfTheOpenAPIDocument(t *testing.T) {
	document, err := os.ReadFile("../adminapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	types, err := os.ReadFile("../../../../ui/src/api.gen.ts")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(types), fmt.Sprintf("// SHA-256 of openapi.yaml: %x\n", sha256.Sum256(document))) {
		t.Error("ui/src/api.gen.ts is not generated from adminapi/openapi.yaml (run: make ui)")
	}
}
