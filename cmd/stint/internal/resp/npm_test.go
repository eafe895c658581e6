package resp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/secret"
)

// TestNPMRedis runs a Node.js program that uses the npm client redis, in both protocol
// versions.
func TestNPMRedis(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed (run scripts/install-test-servers)")
	}
	if _, err := os.Stat("testdata/npm/node_modules/redis/package.json"); err != nil {
		t.Skip("the npm client redis is not installed (run scripts/install-test-servers)")
	}
	s := run(t, Options{Token: secret.Fixed("s3cret")})
	_, port, _ := strings.Cut(s.addr, ":")
	for _, version := range []string{"2", "3"} {
		t.Run("RESP"+version, func(t *testing.T) {
			said := runNode(t, node, port, "s3cret", version)
			for what, want := range npmAnswers() {
				if !reflect.DeepEqual(said[what], want) {
					t.Errorf("%s: %v, want %v", what, said[what], want)
				}
			}
			if len(said) != len(npmAnswers()) {
				t.Errorf("it said %v", said)
			}
		})
	}
	if said := runNode(t, node, port, "wrong", "3"); !strings.HasPrefix(fmt.Sprint(said["failed"]), "WRONGPASS") || len(said) != 1 {
		t.Errorf("with a wrong password: %v", said)
	}
}

// npmAnswers is the expected output of client.mjs.
func npmAnswers() map[string]any {
	order := make([]any, 100)
	for i := range order {
		order[i] = float64(max(0, 49-i))
	}
	return map[string]any{
		"ping":                 "PONG",
		"one":                  []any{0., 16., 15., -1., 2.},
		"default quantity":     []any{0., 16., 14., -1., 4.},
		"allowed of a hundred": 50.,
		"in order":             order,
		"denied":               []any{1., 50., 0., 3600., 180000.},
		"unknown":              "ERR unknown command 'GET', with args beginning with: 'k' ",
		"mistake":              "Cell error: Couldn't parse as integer: x",
		"after an error":       "PONG",
	}
}

// runNode runs client.mjs and returns its output, by command.
func runNode(t *testing.T, node string, args ...string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	command := exec.CommandContext(ctx, node, append([]string{"testdata/npm/client.mjs"}, args...)...)
	command.WaitDelay = time.Second
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, errs.String())
	}
	said := map[string]any{}
	for line := range strings.Lines(string(out)) {
		var pair [2]any
		if err := json.Unmarshal([]byte(line), &pair); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		said[fmt.Sprint(pair[0])] = pair[1]
	}
	return said
}
