package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// piped runs a command with a text on standard input.
func (a *administered) piped(text string, args ...string) result {
	a.t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(binary, args...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = append(cleanEnvironment(), a.env...), strings.NewReader(text), &out, &errs
	_ = c.Run() // the status tells
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
		{adminRules, exitDone, "impact: no request", []string{"rules", "impact", "-"}},
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
