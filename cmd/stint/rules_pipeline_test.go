package main

import (
	"strings"
	"testing"
)

func TestPipelinesDecideByTheExitStatus(t *testing.T) {
	a := administer(t)
	wide := a.file("wide.yaml", "rules:\n  - {id: a, limit: 1000, window: 1m}\n")
	strict := a.file("strict.yaml", "rules:\n  - {id: a, limit: 1, window: 1m}\n")
	warned := a.file("warned.yaml", "rules:\n  - {id: a, limit: 1000, window: 1m}\n  - {id: b, match: {path: /v1}, limit: 1000, window: 1m, tier: none}\n")
	a.run(exitDone, nil, "rules", "apply", wide)
	a.traffic(200)
	for _, c := range []struct {
		status int
		args   []string
	}{
		{exitDone, []string{"rules", "impact", "--detailed-exitcode", wide}},
		{exitDone, []string{"rules", "impact", strict}},
		{exitDifferent, []string{"rules", "impact", "--detailed-exitcode", strict}},
		{exitDifferent, []string{"rules", "impact", "--detailed-exitcode", "--json", strict}},
		{exitDone, []string{"rules", "diff", "--detailed-exitcode", wide}},
		{exitDone, []string{"rules", "diff", strict}},
		{exitDifferent, []string{"rules", "diff", "--detailed-exitcode", strict}},
		{exitDifferent, []string{"rules", "diff", "--detailed-exitcode", "0", "1"}},
		{exitDone, []string{"rules", "diff", "--detailed-exitcode", "1", "1"}},
		{exitDone, []string{"rules", "apply", "--dry-run", "--detailed-exitcode", wide}},
		{exitDifferent, []string{"rules", "apply", "--dry-run", "--detailed-exitcode", strict}},
		{exitUsage, []string{"rules", "apply", "--detailed-exitcode", strict}},
		{exitUsage, []string{"rules", "apply", "--yes=everything", strict}},
	} {
		if got := command(t, a.env, c.args...); got.status != c.status || c.status == exitDifferent && got.out == "" {
			t.Errorf("%v: status %d, want %d\n%s%s", c.args, got.status, c.status, got.out, got.errors)
		}
	}
	if got := command(t, a.env, "rules", "impact", "--json", strict); !strings.Contains(got.out, `"above_limit":true`) {
		t.Error(got.out)
	}
	for _, args := range [][]string{{"rules", "impact"}, {"rules", "diff"}, {"rules", "apply"}, {"rules", "apply", "--dry-run"}} {
		if got := command(t, a.env, append(args, "--fail-on-warning", warned)...); got.status != exitFailed || !strings.Contains(got.errors, "the rules have ") {
			t.Errorf("%v: status %d\n%s%s", args, got.status, got.out, got.errors)
		}
	}
	a.run(exitDone, []string{"1*"}, "rules", "history")
	a.run(exitFailed, []string{"--yes=impact,removes,resets)"}, "rules", "apply", "--yes=removes,resets", strict)
	a.run(exitDone, []string{"version 2 is published"}, "rules", "apply", "--yes=impact", strict)
	a.run(exitDone, []string{"admits ", "more than the rules in force"}, "rules", "impact", wide)
}

func TestPipelinesFailIfTheImpactIsUnknown(t *testing.T) {
	a := administer(t, "--impact-limit", "off")
	wide := a.file("wide.yaml", "rules:\n  - {id: a, limit: 1000, window: 1m}\n")
	a.run(exitDone, []string{"impact: unknown"}, "rules", "impact", wide)
	if got := command(t, a.env, "rules", "impact", "--detailed-exitcode", wide); got.status != exitFailed || !strings.Contains(got.errors, "the impact is unknown") {
		t.Errorf("status %d\n%s%s", got.status, got.out, got.errors)
	}
}
