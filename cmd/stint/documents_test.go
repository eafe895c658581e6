package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/dynamotest"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
)

// commandBlock is a block of commands in a document, and a block of JSON that stands
// directly below it: what the commands print. Blocks of `console` also show what their
// commands print; the tests of their documents compare it.
var commandBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n(?:\n?```json\n(.*?)^```)?")

// TestCommandsInDocumentsRun runs the commands of every document as they are written, block
// after block in a folder of the page. Each page has a server and a Redis server of its
// own. testdata/documents/functions.sh says what differs from a reader's shell.
func TestCommandsInDocumentsRun(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := commandBlock.FindAllStringSubmatch(string(text), -1)
		if path == "../../README.md" {
			found = found[2:] // scripts/test-readme runs `make run` and the requests to it
		}
		if len(found) == 0 {
			continue
		}
		blocks += len(found)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			p := newPage(t)
			if strings.Contains(string(text), " postgres://") {
				p.startPostgres()
			}
			if strings.Contains(string(text), "dynamodb://") {
				p.emulateDynamo()
			}
			for _, m := range found {
				if strings.Contains(m[1], "grpcurl ") && !p.has("grpcurl") {
					t.Skip("grpcurl is missing (run make servers)")
				}
				p.compare(m[1], p.run(m[1]), m[2])
			}
		})
	}
	if blocks < 20 {
		t.Errorf("found %d blocks of commands in the documents", blocks)
	}
}

// page is the folder and the environment in which the commands of a document run.
type page struct {
	t         *testing.T
	folder    string
	env       []string
	functions string
}

func newPage(t *testing.T) *page {
	t.Helper()
	functions, err := os.ReadFile("testdata/documents/functions.sh")
	if err != nil {
		t.Fatal(err)
	}
	redis := redistest.Server(t)
	p := &page{t: t, folder: t.TempDir(), functions: string(functions)}
	log := filepath.Join(p.folder, "server.log")
	p.env = append(cleanEnvironment(),
		"PATH="+strings.Join([]string{filepath.Dir(binary), absolute(t, "../../bin"), os.Getenv("PATH")}, string(os.PathListSeparator)),
		"STATE_DIRECTORY="+filepath.Join(p.folder, "state"),
		"STINT_HTTP=127.0.0.1:0", "STINT_GRPC=127.0.0.1:0", "STINT_ADMIN=127.0.0.1:0",
		"LOG="+log, "REDIS="+redis.Addr(), "EDITOR=true", "KEY=sk_live_42", "COMMIT=4f2a91c", "NO_COLOR=1")
	p.write()
	return p
}

// startPostgres starts the server of the URLs with the host 10.0.0.7, with the two users that
// the documents name.
func (p *page) startPostgres() {
	p.t.Helper()
	s := pgtest.Start(p.t)
	s.Must("CREATE ROLE owner SUPERUSER LOGIN PASSWORD '" + pgtest.Password + "'")
	s.Must("CREATE DATABASE limits")
	address, err := url.Parse(s.URL())
	if err != nil {
		p.t.Fatal(err)
	}
	p.env = append(p.env, "POSTGRES="+address.Host, "PGPASSWORD="+pgtest.Password)
	for _, name := range []string{"store.secret", "owner.secret"} {
		if err := os.WriteFile(filepath.Join(p.folder, name), []byte(pgtest.Password), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// emulateDynamo starts an emulator of DynamoDB for the commands.
func (p *page) emulateDynamo() {
	p.t.Helper()
	p.env = append(p.env, "DYNAMO="+dynamotest.Dynalite(p.t).Addr())
	for name, value := range dynamotest.Environment {
		p.env = append(p.env, name+"="+value)
	}
}

// has reports whether a program is in the PATH of the commands.
func (p *page) has(program string) bool {
	c := exec.CommandContext(p.t.Context(), "bash", "-c", "command -v "+program)
	c.Env = p.env
	return c.Run() == nil
}

// write writes the files that the commands name.
func (p *page) write() {
	p.t.Helper()
	rules, err := os.ReadFile("testdata/documents/rules.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	log, err := os.ReadFile(sampleLog)
	if err != nil {
		p.t.Fatal(err)
	}
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	key := map[string]string{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "1", "x": base64.RawURLEncoding.EncodeToString(public)}
	keys, err := json.Marshal(map[string]any{"keys": []any{key}})
	if err != nil {
		p.t.Fatal(err)
	}
	for name, content := range map[string]string{
		"rules.yaml":          string(rules),
		"rules/rules.yaml":    string(rules),
		"new.yaml":            string(rules),
		"rules.json":          `{"rules":[{"id":"orders","match":{"path_prefix":"/v1/orders"},"limit":50,"window":"1m"}]}`,
		"ratelimit/edge.yaml": "domain: edge\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: minute, requests_per_unit: 60}\n",
		"access.log":          string(log),
		"jwks.json":           string(keys),
	} {
		path := filepath.Join(p.folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// run runs a block of commands and returns what they print. A block that starts no server
// has the one of the page.
func (p *page) run(block string) (printed string) {
	p.t.Helper()
	block = strings.NewReplacer("bin/stint serve &", "stint serve", "bin/stint", "stint", "--base 12", "--base 1").Replace(block)
	script := p.functions
	if !strings.Contains(block, "stint serve") {
		script += "stint rules apply --source redis://10.0.0.5:6379/0 --yes rules.yaml >setup.log\nstint serve --rules redis://10.0.0.5:6379/0 --resp 127.0.0.1:0\n"
	}
	return p.bash(script, block)
}

// bash runs commands in the folder of the page, after the functions and commands that the
// document does not show, and returns what they print.
func (p *page) bash(setup, commands string) (printed string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", setup+commands)
	c.Dir, c.Env = p.folder, p.env
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		p.t.Errorf("%v\n%s\n%s%s", err, commands, &out, &errs)
	}
	p.t.Logf("%s\n%s%s", commands, &out, &errs)
	return out.String()
}

// compare compares the JSON that the commands of a block have printed with the JSON in the
// document.
func (p *page) compare(block, printed, document string) {
	p.t.Helper()
	got, want := json.NewDecoder(strings.NewReader(printed)), json.NewDecoder(strings.NewReader(document))
	for want.More() {
		var g, w any
		if err := want.Decode(&w); err != nil {
			p.t.Fatalf("the document has no JSON: %v\n%s", err, document)
		}
		if err := got.Decode(&g); err != nil || !shows(w, g) {
			p.t.Errorf("%s\nprints\n%v\nthe document shows\n%v (%v)", block, g, w, err)
		}
	}
}

// more stands for any value in the JSON of a document, and as the name of a member for
// any further members.
const more = "…"

// shows reports whether JSON in a document is what a command has printed.
func shows(document, printed any) bool {
	switch d := document.(type) {
	case map[string]any:
		p, ok := printed.(map[string]any)
		_, open := d[more]
		for name, value := range d {
			got, has := p[name]
			ok = ok && (name == more || has && shows(value, got))
		}
		return ok && (open || len(d) == len(p))
	case []any:
		p, ok := printed.([]any)
		return ok && slices.EqualFunc(d, p, shows)
	}
	return document == more || document == printed
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
