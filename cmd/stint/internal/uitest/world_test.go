//go:build linux

package uitest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/internal/testserver"
)

// programFolder holds the program under test, and is removed after the last test.
var programFolder string

// program is the path of the program under test, which the first test that needs it builds.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programFolder, "stint")
	if out, err := exec.Command("go", "build", "-o", path, "../..").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) { os.Exit(runAndRemove(m)) }

func runAndRemove(m *testing.M) int {
	var err error
	if programFolder, err = os.MkdirTemp("", "uitest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(programFolder) }()
	return m.Run()
}

// The tokens of the users, by their roles.
const (
	viewer   = "token-of-vera-the-viewer"
	operator = "token-of-olga-the-operator"
	admin    = "token-of-ada-the-admin"
)

const someRules = `# the rules of the shop
tiers:
  free: {limit: 100/m}
  pro: {limit: 1000/m}
rules:
  - id: orders
    match: {path_prefix: /v1/orders}
    by: [api_key]
    limit: 20/m
  - id: search # costs most
    match: {path_prefix: /v1/search}
    by: [api_key]
    limit: 100
    window: 1m
    capacity: 200
    mode: shadow
  - id: logins
    match: {path: /login, methods: [POST]}
    by: [ip]
    limit: 5/m
`

// world is a server with its store, its rules and its users.
type world struct {
	t             *testing.T
	redis         *redistest.Process
	server        *processtest.Process
	admin, http   string
	tokens, state string
	options       []string // more options of the server
}

// newWorld starts a server with the given options beside those that all worlds have.
func newWorld(t *testing.T, options ...string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed (run scripts/install-test-servers)")
	}
	axe(t) // skips before the test has begun
	w := &world{t: t, redis: redistest.Server(t), admin: testserver.FreeAddr(t), http: testserver.FreeAddr(t), state: t.TempDir(), options: options}
	w.tokens = filepath.Join(w.state, "tokens")
	w.writeTokens(viewer, operator, admin)
	w.start()
	w.do(http.MethodPut, "/rules", someRules)
	return w
}

// writeTokens gives the users these tokens.
func (w *world) writeTokens(ofViewer, ofOperator, ofAdmin string) {
	w.t.Helper()
	line := func(name, role, token string) string {
		return fmt.Sprintf("%s %s %x\n", name, role, sha256.Sum256([]byte(token)))
	}
	text := line("vera", "viewer", ofViewer) + line("olga", "operator", ofOperator) + line("ada", "admin", ofAdmin)
	if err := os.WriteFile(w.tokens, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start starts the server, again after a Kill.
func (w *world) start() {
	w.t.Helper()
	path, err := program()
	if err != nil {
		w.t.Fatal(err)
	}
	arguments := []string{"serve", "--admin", w.admin, "--http", w.http, "--grpc", "off", "--state-dir", w.state,
		"--rules", "redis://" + w.redis.Addr(), "--admin-tokens-file", w.tokens}
	if !slices.Contains(w.options, "--store") {
		arguments = append(arguments, "--store", "redis://"+w.redis.Addr())
	}
	w.server = processtest.Start(w.t, w.admin, path, append(arguments, w.options...)...)
}

// do makes a request of the admin API as the admin, and returns the answer.
func (w *world) do(method, path, body string) string {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.admin+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+admin)
	if !request.URL.Query().Has("comment") {
		request.Header.Set("X-Stint-Comment", "the test prepares")
	}
	return w.send(request)
}

// check makes a request of the check API.
func (w *world) check(key, path string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"attributes":{"api_key":%q,"path":%q}}`, key, path)
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.http+"/v1/check", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	w.send(request)
}

func (w *world) send(request *http.Request) string {
	w.t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 400 && response.StatusCode != http.StatusTooManyRequests {
		w.t.Fatalf("%s %s: %s: %s %v", request.Method, request.URL.Path, response.Status, text, err)
	}
	return string(text)
}
