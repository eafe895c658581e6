package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// piped runs a command with a text on standard input.
func (a *administered) piped(text string, args ...string) result {
	a.t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(binary, args...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = append(cleanEnvironment(), a.env...), strings.NewReader(text), &out, &errs
	_ = c.Run() // the exit status reports the error
	return result{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestRulesArePipedIn(t *testing.T) {
	a := administer(t)
	for _, c := range []struct {
		text   string
		status int
		want   string
		args   []string
	}{
		{adminRules, exitDone, "-: OK, 2 rules\n", []string{"rules", "validate", "-"}},
		{adminRules, exitDone, `"path":"-","valid":true`, []string{"rules", "validate", "--json", "-"}},
		{adminRules, exitDone, "2 added (a, b)", []string{"rules", "diff", "-"}},
		{adminRules, exitDone, "impact: unknown, no request", []string{"rules", "impact", "-"}},
		{adminRules, exitDone, "version 1 is published", []string{"rules", "apply", "-"}},
		{adminRemoved, exitFailed, "there is no terminal to ask at", []string{"rules", "apply", "-"}},
		{adminRemoved, exitDone, "version 2 is published", []string{"rules", "apply", "--yes", "-"}},
		{"rules:\n  - {id: a, limt: 10, window: 60}\n", exitUsage, "-:2:", []string{"rules", "apply", "-"}},
		{"colour: red\n", exitUsage, "-:1:1: ", []string{"rules", "validate", "-"}},
		{"", exitUsage, "body: is empty", []string{"rules", "apply", "--yes", "-"}},
		{strings.Repeat("#", 17<<20), exitUsage, "bytes long", []string{"rules", "validate", "-"}},
	} {
		if got := a.piped(c.text, c.args...); got.status != c.status || !strings.Contains(got.out+got.errors, c.want) {
			t.Errorf("%v: status %d, want %d with %q\n%s%s", c.args, got.status, c.status, c.want, got.out, got.errors)
		}
	}
	if got := a.run(exitDone, nil, "rules", "show"); got.out != adminRemoved {
		t.Error(got.out)
	}
}

func TestAFolderWithoutRulesIsNotApplied(t *testing.T) {
	a := administer(t)
	a.file("notes.txt", "none")
	for _, what := range []string{"apply", "diff", "impact"} {
		a.run(exitUsage, []string{"holds no rule file (to have no rules, write a file with rules: [])"}, "rules", what, a.folder)
	}
}

// A server knows one file by the name rules.yaml, whatever its name is here.
func TestWarningsOfAServerNameTheLocalFiles(t *testing.T) {
	a := administer(t)
	path := a.file("mine.yaml", "rules:\n  - {id: logins, match: {path: /login}, limit: 10, window: 60}\n")
	for _, what := range []string{"diff", "impact", "apply"} {
		if got := a.run(exitDone, nil, "rules", what, path); !strings.HasPrefix(got.errors, path+":2:") || !strings.Contains(got.errors, ": warning: ") {
			t.Errorf("%s: %q", what, got.errors)
		}
	}
}

// A newer server may find mistakes that this program does not know.
func TestMistakesFoundByAServerNameTheLocalFiles(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("ETag", `"a"`)
			_, _ = w.Write([]byte(`{"files":[]}`))
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"code":"INVALID_RULES","message":"no","problems":[{"file":"b.yaml","line":3,"column":5,"what":"is new","mend":"mend it"}]}}`))
	}))
	defer server.Close()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "a.yaml"), "rules:\n  - {id: a, limit: 10, window: 60}\n")
	b := writeFile(t, filepath.Join(folder, "b.yaml"), "rules:\n  - {id: b, limit: 10, window: 60}\n")
	for _, what := range []string{"apply", "diff", "impact"} {
		for _, path := range []string{folder, b} {
			got := command(t, nil, "rules", what, "--server", server.URL, path)
			if got.status != exitUsage || got.errors != b+":3:5: is new (mend it)\n" {
				t.Errorf("%s %s: status %d, %q", what, path, got.status, got.errors)
			}
		}
	}
}
