package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidatePrintsWhatIsInForce(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), `
tiers:
  free: {api_key_pattern: "sk_free_*", limit: 100, window: 60}
rules:
  - id: plain
    limit: 10
    window: 1
    override: {"sk_prod_vip_001": {limit: 20}}
  - {id: exact, params: {capacity: 10, refill_rate: 1.67}}
  - {id: rounded, params: {capacity: 1000000000, refill_rate: 0.333333333333}}
  - {id: looks, mode: shadow, limit: 1, window: 60}
  - {id: tiered, match: {path: /x}}
  - {id: nothing, deny_all: true, match: {path: /secret}}
`)
	got := command(t, nil, "rules", "validate", file)
	if got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errors)
	}
	for _, want := range []string{
		"OK, 6 rules", "167/100", "(rounded down)", "shadow", "free", "sk_pr…", "20 per 1s", "denies all", "100 per 1m",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "vip_001") {
		t.Errorf("a key is shown whole:\n%s", got.out)
	}
	if !strings.Contains(got.errors, "rules.yaml:10:63: warning: ") {
		t.Errorf("no warning of the rounded rate: %q", got.errors)
	}
}

// With the identity of a server, validate finds what no request of that server has.
func TestValidateChecksWhatRulesRead(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), `rules:
  - {id: claim, by: ["jwt:sub"], limit: 1/s}
  - {id: attribute, by: [user_id], limit: 1/s}
`)
	named := writeFile(t, filepath.Join(t.TempDir(), "named.yaml"), "identity: [jwt:sub]\nrules:\n  - {id: a, limit: 1/s}\n")
	const claim, attribute = `rules.yaml:2:22: warning: "jwt:sub": the server verifies no tokens`, `rules.yaml:3:26: warning: the gateway and forward auth cannot apply this as it is written: "user_id" is no attribute of a request`
	for _, c := range []struct {
		args   []string
		status int
		want   []string
		not    []string
	}{
		{[]string{file}, exitDone, nil, []string{"warning"}},
		{[]string{"--identity", "bearer", file}, exitDone, []string{claim, attribute}, nil},
		{[]string{"--jwt-keys", "keys.json", file}, exitDone, []string{attribute}, []string{"jwt:sub"}},
		{[]string{"--identity", "bearer", named}, exitUsage, []string{"named.yaml:1:12: jwt:sub is a claim, and no key verifies tokens"}, nil},
		{[]string{"--identity", "jwt:sub", file}, exitUsage, []string{"identity: jwt:sub is a claim, and no key verifies tokens"}, nil},
		{[]string{"--identity", "cookies:x", file}, exitUsage, []string{"identity: "}, nil},
	} {
		got := command(t, nil, append([]string{"rules", "validate"}, c.args...)...)
		if got.status != c.status {
			t.Errorf("%v: status %d: %s", c.args, got.status, got.errors)
		}
		for _, want := range c.want {
			if !strings.Contains(got.errors, want) {
				t.Errorf("%v: no %q in %s", c.args, want, got.errors)
			}
		}
		for _, not := range c.not {
			if strings.Contains(got.errors, not) {
				t.Errorf("%v: %q in %s", c.args, not, got.errors)
			}
		}
	}
	got := command(t, nil, "rules", "validate", "--json", "--identity", "bearer", file)
	if got.status != exitDone || strings.Count(got.out, `"what":`) != 2 {
		t.Errorf("as JSON: %s", got.out)
	}
}

func TestKeysAreShortenedBetweenLetters(t *testing.T) {
	for key, want := range map[string]string{"": "", "é": "…", "日本語キー": "日…", "sk_prod_vip_001": "sk_pr…", "sk[1]sk[1]": "sk[…", "sk_*": "sk_*", "10.0.0.0/8": "10.0.0.0/8", "::1": "::1"} {
		if got := masked(key); got != want {
			t.Errorf("%q is shown as %q, want %q", key, got, want)
		}
	}
}

func TestValidatePrintsEveryMistakeOfEveryFile(t *testing.T) {
	folder := t.TempDir()
	one := writeFile(t, filepath.Join(folder, "one.yaml"), "rules:\n  - {id: a, limt: 1}\n  - {id: a b, limit: 1, window: 60}\n")
	good := writeFile(t, filepath.Join(folder, "good.yaml"), "rules:\n  - {id: a, limit: 1, window: 60}\n")
	two := writeFile(t, filepath.Join(folder, "two.yaml"), "colour: red\n")
	got := command(t, nil, "rules", "validate", one, good, two)
	if got.status != exitUsage || !strings.Contains(got.out, "good.yaml: OK, 1 rule\n") {
		t.Errorf("status %d: %s", got.status, got.out)
	}
	for _, want := range []string{"one.yaml:2:", "one.yaml:3:", "two.yaml:1:1: ", " mistakes"} {
		if !strings.Contains(got.errors, want) {
			t.Errorf("%q is not in\n%s", want, got.errors)
		}
	}
}

func TestValidateReadsAFolderAsOneSet(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "a.yaml"), "tiers:\n  free: {limit: 5, window: 60}\n")
	writeFile(t, filepath.Join(folder, "b.yaml"), "rules:\n  - {id: a, tier: free}\n")
	if got := command(t, nil, "rules", "validate", folder); got.status != exitDone || !strings.Contains(got.out, "5 per 1m") {
		t.Errorf("status %d: %s%s", got.status, got.out, got.errors)
	}
}

func TestValidateOfAMissingFileIsAMistake(t *testing.T) {
	if got := command(t, nil, "rules", "validate", filepath.Join(t.TempDir(), "none.yaml")); got.status != exitUsage || !strings.Contains(got.errors, "none.yaml") {
		t.Errorf("status %d: %s", got.status, got.errors)
	}
}

func TestRulesWithoutACommandIsWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"rules"}, {"rules", "validate"}, {"rules", "valdate"}} {
		if got := command(t, nil, args...); got.status != exitUsage || got.errors == "" {
			t.Errorf("%v: status %d, %q", args, got.status, got.errors)
		}
	}
}

// What rules show prints is what rules diff compares with: built-in rules, a file and a
// folder.
func TestShownRulesDoNotDiffer(t *testing.T) {
	a := administer(t)
	saved := filepath.Join(a.folder, "saved.yaml")
	same := func() {
		t.Helper()
		shown := a.run(exitDone, nil, "rules", "show").out
		writeFile(t, saved, shown)
		if got := a.run(exitDone, nil, "rules", "diff", saved); got.out != "" || !strings.Contains(got.errors, "no difference") {
			t.Errorf("%s%s", got.out, got.errors)
		}
		if v := a.json("rules", "diff", saved); v["changed"] != false {
			t.Errorf("%v", v)
		}
		writeFile(t, saved, shown+"# seen\n")
		if got := a.run(exitDone, []string{"\n+# seen\n"}, "rules", "diff", saved); strings.Contains(got.out, "\n-") {
			t.Errorf("more differs than the new line:\n%s", got.out)
		}
	}
	same()
	a.run(exitDone, nil, "key", "ban", "sk_live_12345")
	same()
	a.run(exitDone, nil, "rules", "apply", "--yes", a.file("one.yaml", adminRules))
	same()
	folder := filepath.Join(a.folder, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, "a.yaml"), "tiers:\n  free: {limit: 5, window: 60}\n")
	writeFile(t, filepath.Join(folder, "b.yaml"), "rules:\n  - {id: a, tier: free}")
	a.run(exitDone, nil, "rules", "apply", "--yes", folder)
	same()
	writeFile(t, saved, a.run(exitDone, nil, "rules", "show").out)
	a.run(exitDone, []string{"nothing to change: version 3"}, "rules", "apply", saved)
}

func TestDifferencesAreToldInWords(t *testing.T) {
	a := administer(t)
	const before = `tiers:
  free: {api_key_pattern: "sk_free_*", limit: 100, window: 60}
  pro: {api_key_pattern: "sk_pro_*", limit: 500, window: 60}
rules:
  - {id: orders, override: {sk_live_12345: 50/m}}
  - {id: logins, by: [ip], limit: 5, window: 60}
  - {id: old, by: [ip], limit: 9, window: 1s}
`
	after := strings.NewReplacer("limit: 500", "limit: 10", "50/m", "60/m", "id: old, by: [ip], limit: 9", "id: fresh, by: [ip], limit: 8",
		"limit: 5, window: 60", "limit: 5, window: 60, mode: shadow").Replace(before)
	a.run(exitDone, nil, "rules", "apply", a.file("before.yaml", before))
	changed := a.file("after.yaml", after)
	got := a.run(exitDone, []string{
		"\n  orders, tier pro: 500/m → 10/m\n",
		"\n  orders, tier free, override sk_l…: 50/m → 60/m\n",
		"\n  logins: 5/m → 5/m (mode shadow)\n",
		"\n  old: 9/s → removed\n",
		"\n  fresh: new → 8/s\n",
		"\n-  pro: {api_key_pattern",
	}, "rules", "diff", changed)
	if strings.Contains(got.out, "\x1b") {
		t.Errorf("colours without a terminal:\n%q", got.out)
	}
	for _, l := range a.json("rules", "diff", changed)["limits"].([]any) {
		if one := l.(map[string]any); one["rule"] == "orders" && one["tier"] == "pro" && one["override"] == nil && (one["was"] != "500/m" || one["is"] != "10/m") {
			t.Errorf("%v", one)
		}
	}
	a.run(exitDone, []string{"version 2 is published", "  orders, tier pro: 500/m → 10/m\n"}, "rules", "apply", "--yes", changed)
}
