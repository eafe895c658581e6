package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckPrintsATable(t *testing.T) {
	p := startServer(t, nil, "--rules", writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), oneAMinute))
	target := "http://" + p.addr("http")
	first := command(t, nil, "check", "--server", target, "api_key=k", "path=/")
	if first.status != exitDone || !strings.HasPrefix(first.out, "allowed\n") || !strings.Contains(first.out, "one   token_bucket:1m  allowed") {
		t.Errorf("status %d\n%s%s", first.status, first.out, first.errors)
	}
	second := command(t, nil, "check", "--server", target, "api_key=k", "path=/")
	if second.status != exitDone || !strings.HasPrefix(second.out, "denied: retry after ") {
		t.Errorf("a denial is a decision: status %d\n%s%s", second.status, second.out, second.errors)
	}
	never := command(t, nil, "check", "--server", target, "api_key=k", "path=/", "cost=2")
	if !strings.HasPrefix(never.out, "denied: the cost is greater than the limit\n") || !strings.Contains(never.out, "never") {
		t.Errorf("%s%s", never.out, never.errors)
	}
}

func TestCheckSaysThatAPenaltyDenied(t *testing.T) {
	const rules = "rules:\n  - {id: one, by: [api_key], limit: 1, window: 30m, penalty: {after: 2, cool_down: 1h, max: 1h}}\n"
	p := startServer(t, nil, "--rules", writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), rules))
	var got result
	for range 4 {
		got = command(t, nil, "check", "--server", "http://"+p.addr("http"), "api_key=k")
	}
	if got.status != exitDone || !strings.HasPrefix(got.out, "denied: Blocked until ") || !strings.Contains(got.out, " after 2 denials; retry after ") || !strings.Contains(got.out, "denied (cool_down)") {
		t.Errorf("status %d\n%s%s", got.status, got.out, got.errors)
	}
}

// A rule that denies all is distinguished from a cost above the limit.
func TestCheckNamesAPermanentDenial(t *testing.T) {
	const rules = "rules:\n  - {id: closed, deny_all: true}\n"
	p := startServer(t, nil, "--rules", writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), rules))
	got := command(t, nil, "check", "--server", "http://"+p.addr("http"), "api_key=k")
	if got.status != exitDone || !strings.HasPrefix(got.out, "denied: by the rule itself") {
		t.Errorf("status %d\n%s%s", got.status, got.out, got.errors)
	}
}

func TestCheckNamesAMissingAttribute(t *testing.T) {
	const rules = "rules:\n  - {id: keyed, by: [api_key], missing: deny, limit: 5/s}\n"
	p := startServer(t, nil, "--rules", writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), rules))
	got := command(t, nil, "check", "--server", "http://"+p.addr("http"), "path=/")
	if got.status != exitDone || !strings.HasPrefix(got.out, "denied: the request lacks an attribute that the rule counts by (missing: deny)\n") {
		t.Errorf("status %d\n%s%s", got.status, got.out, got.errors)
	}
}

func TestCheckPrintsJSON(t *testing.T) {
	p := startServer(t, nil)
	got := command(t, nil, "check", "--server", "http://"+p.addr("http"), "--json", "ip=203.0.113.1")
	var decision map[string]any
	if err := json.Unmarshal([]byte(got.out), &decision); err != nil || decision["allowed"] != true || decision["at_us"] == nil {
		t.Errorf("%v: %q", err, got.out)
	}
}

func TestCheckSendsTheTokenOfTheEnvironment(t *testing.T) {
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), "\ufeffs3cret\r\n") // with a byte order mark and CRLF, as Windows editors write it
	p := startServer(t, nil, "--http-token-file", token)
	target := "http://" + p.addr("http")
	if got := command(t, []string{"STINT_TOKEN=s3cret"}, "check", "--server", target, "path=/"); got.status != exitDone {
		t.Errorf("with the token: status %d, %s", got.status, got.errors)
	}
	if got := command(t, nil, "check", "--server", target, "path=/"); got.status != exitFailed || !strings.Contains(got.errors, "401") {
		t.Errorf("without: status %d, %s", got.status, got.errors)
	}
}

func TestCheckFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	if got := command(t, []string{"STINT_TOKEN=s3cret"}, "check", "--server", server.URL, "path=/"); got.status != exitFailed || !strings.Contains(got.errors, "307") {
		t.Errorf("status %d, %q", got.status, got.errors)
	}
}

func TestCheckDistinguishesFailureFromWrongUsage(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	p := startServer(t, nil)
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"no attribute":          {nil, exitUsage, "got 0 arguments (give at least one attribute, such as api_key=alice)"},
		"no value":              {[]string{"api_key"}, exitUsage, "key=value"},
		"no name":               {[]string{"=k"}, exitUsage, "key=value"},
		"an attribute twice":    {[]string{"path=/a", "path=/b"}, exitUsage, "given twice"},
		"a cost twice":          {[]string{"cost=1", "cost=2"}, exitUsage, "given twice"},
		"cost in words":         {[]string{"cost=two"}, exitUsage, "whole number"},
		"no server URL":         {[]string{"--server", "localhost", "path=/"}, exitUsage, "server: "},
		"no web server":         {[]string{"--server", "redis://u:hunter2@h", "path=/"}, exitUsage, "redis:// is not the address of a server"},
		"a password":            {[]string{"--server", "http://u:hunter2@h", "path=/"}, exitUsage, "STINT_TOKEN"},
		"a garbled key":         {[]string{"api_key=\xff"}, exitUsage, "in UTF-8"},
		"nobody there":          {[]string{"--server", "http://127.0.0.1:1", "path=/"}, exitFailed, "127.0.0.1:1"},
		"not a stint server":    {[]string{"--server", other.URL, "path=/"}, exitFailed, "is this a stint server?"},
		"cost the server hates": {[]string{"--server", "http://" + p.addr("http"), "path=/", "cost=-1"}, exitUsage, "check: 400 Bad Request: cost: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, nil, append([]string{"check"}, c.args...)...)
			if got.status != c.status || !strings.Contains(got.errors, c.want) || strings.Contains(got.errors, "hunter2") {
				t.Errorf("status %d, %q, want %d with %q", got.status, got.errors, c.status, c.want)
			}
		})
	}
}

func TestTakesCombineLimits(t *testing.T) {
	p := startServer(t, nil)
	take := func(key, more string) string {
		t.Helper()
		_, answer := do(t, http.MethodPost, "http://"+p.addr("http")+"/v1/take", `{"key":"`+key+`","limits":["1/h","2/d"]`+more+`}`)
		return answer
	}
	for _, key := range []string{"all", "any"} {
		admitted := 0
		for range 4 {
			if isAllowed(take(key, `,"combine":"`+key+`"`)) {
				admitted++
			}
		}
		if want := map[string]int{"all": 1, "any": 2}[key]; admitted != want {
			t.Errorf("combine %s admits %d of 4, want %d", key, admitted, want)
		}
	}
	if got := take("any", `,"combine":"any"`); isAllowed(got) {
		t.Errorf("%s", got)
	}
	for more, want := range map[string]string{
		`,"combine":"some"`:                       `combine: \"some\" is not known (use one of all, any)`,
		`,"combine":"any","cost":-1,"at_us":1000`: "combine: any cannot be refunded",
		`,"combin":"any"`:                         "combine",
	} {
		if got := take("k", more); !strings.Contains(got, want) || !strings.Contains(got, "INVALID_REQUEST") {
			t.Errorf("%s: %s", more, got)
		}
	}
	if got := post(t, p, "/v1/peek", `{"key":"fresh","limits":["1/h","2/d"],"combine":"any"}`); !isAllowed(got) {
		t.Errorf("%s", got)
	}
}
