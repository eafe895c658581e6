package rule

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func TestSeveralFilesAreOneSet(t *testing.T) {
	s, err := Parse(
		File{"a.yaml", []byte("tiers: {pro: 9/m}\nrules: [{id: a, tier: pro}]\nallow: [10.0.0.0/8]")},
		File{"b.yaml", []byte("defaults: {limit: 7/m}\nrules: [{id: b}]\nallow: [11.0.0.0/8]")},
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rules()) != 2 || s.Rules()[0].ID != "a" || s.Rules()[1].ID != "b" {
		t.Errorf("rules %v", s.Rules())
	}
	now := int64(0)
	for ip, want := range map[string]List{"10.0.0.1": ListAllow, "11.0.0.1": ListAllow, "12.0.0.1": ListNone} {
		o, err := s.Decide(t.Context(), newStore(t, &now), Map{"ip": ip, "tier": "pro"}, 1)
		if err != nil || o.List != want {
			t.Errorf("%s: %v, %v", ip, o.List, err)
		}
	}
}

func TestFilesThatContradictEachOther(t *testing.T) {
	text := "ipv6_prefix: %\ntiers: {pro: 9/m}\ndefaults: {limit: 7/m}\nrules: [{id: a}]"
	_, err := Parse(File{"a.yaml", []byte(strings.Replace(text, "%", "48", 1))}, File{"b.yaml", []byte(strings.Replace(text, "%", "64", 1))})
	want := []string{"b.yaml:1:14: ipv6_prefix is given twice", "b.yaml:2:9: tier pro is declared twice", "b.yaml:3:11: defaults are given twice", "b.yaml:4:14: id \"a\" is taken"}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatal(err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("got %s, want %s", lines[i], want[i])
		}
	}
}

func TestEmptyListsThatCouldMeanAllOrNoneAreRefused(t *testing.T) {
	for _, name := range []string{"by: []", "match: {methods: []}", "match: {cidr: []}", "on_store_failure: {local: {limit: 1/s, by: []}}"} {
		_, err := Parse(File{"r.yaml", []byte("rules:\n  - id: a\n    limit: 1/s\n    " + name + "\n")})
		if err == nil || !strings.Contains(err.Error(), "r.yaml:4:") || !strings.Contains(err.Error(), "is empty (name at least one, or remove it)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoadReadsAFolderInOrderOfNames(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"b.yml": "rules: [{id: b, limit: 1/s}]", "a.yaml": "rules: [{id: a, limit: 1/s}]", "c.json": `{"rules":[{"id":"c","limit":"1/s"}]}`,
		"notes.txt": "{", ".hidden.yaml": "{", "x.yaml~": "{",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "folder.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range s.Rules() {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"a", "b", "c"}) {
		t.Errorf("rules %v", ids)
	}
}

func TestLoadSaysWhatCannotBeRead(t *testing.T) {
	huge := filepath.Join(t.TempDir(), "huge.yaml")
	if err := os.WriteFile(huge, []byte(strings.Repeat("#", maxFile+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"testdata/nowhere.yaml": "testdata/nowhere.yaml: cannot be read: no such file or directory (check the name, and the folder in which the program runs)",
		huge:                    huge + ": cannot be read: it is over 16777216 bytes long",
	} {
		_, err := Load(path)
		var problems Problems
		if !errors.As(err, &problems) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := Parse(File{"huge.yaml", make([]byte, maxFile+1)}); err == nil {
		t.Error("a huge file is parsed")
	}
}

func TestAnEmptyFileIsAWarning(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "a.yaml: is empty, so that it limits nothing (write rules: [] if that is meant)",
		"# only comments\n": "a.yaml: is empty, so that it limits nothing (write rules: [] if that is meant)",
		"rules: []":         "",
	} {
		s, err := Parse(File{"a.yaml", []byte(text)})
		if err != nil || s.Warnings().Error() != want {
			t.Errorf("%q: %v, %v", text, err, s.Warnings())
		}
	}
}

// If locating a mistake would take too long, the message names the parser's own
// line.
func TestLookingForTheBrokenLineIsBounded(t *testing.T) {
	text := "rules: [\n" + strings.Repeat("  {id: a, limit: 1/s},\n", 2000) + "}"
	if line, column, ok := brokenLine([]byte(text)); ok {
		t.Errorf("found in line %d, column %d: every line was parsed again", line, column)
	}
	if _, _, ok := brokenLine(bytes.Repeat([]byte("\t\n"), maxReparsed)); ok {
		t.Error("a huge file was parsed again")
	}
}

func TestAFolderWithoutRuleFilesIsAWarning(t *testing.T) {
	s, err := Load(t.TempDir())
	if err != nil || !strings.Contains(s.Warnings().Error(), "holds no *.yaml") {
		t.Errorf("%v, %v", err, s.Warnings())
	}
}

// Without the check, the scheme of an address would be read as its host.
func TestAHostIsNoAddress(t *testing.T) {
	for host, ok := range map[string]bool{
		"https://api.example.com/": false, "//api.example.com": false, "api.example.com/v1": false, "a@b": false, "a.*.b": false, "*.": false,
		"api.example.com": true, "API.example.com:443": true, "*.example.com": true, "[::1]:80": true,
	} {
		_, err := Parse(File{"a.yaml", []byte("rules: [{id: a, limit: 1/s, match: {host: '" + host + "'}}]")})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "is not a host name") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// A key of an override that is not indented far enough is read as a field name.
// Messages are logged, so they must not contain the whole key.
func TestMessagesNameNoWholeAPIKey(t *testing.T) {
	for text, want := range map[string]string{
		"sk_prod_vip_0123456789: {limit: 1}":                                           `a rule file has no key "sk_prod…"`,
		"rules: [{id: a, limit: 1/s, override: , sk_prod_vip_0123456789: {limit: 1}}]": `a rule has no key "sk_prod…"`,
		"requests_a_second: 1":                                                         `a rule file has no key "requests_a_second"`,
		"api_key_pattern_of_tier: 1":                                                   `a rule file has no key`,
	} {
		_, err := Parse(File{"a.yaml", []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestMistakesAreBounded(t *testing.T) {
	_, err := Parse(File{"many.yaml", []byte("rules:\n" + strings.Repeat("- 1\n", 3*maxProblems))})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != maxProblems {
		t.Errorf("%d problems", len(problems))
	}
}

func TestRulesAreBounded(t *testing.T) {
	_, err := Parse(File{"many.yaml", []byte("rules: [" + strings.Repeat("{},", maxRules+1) + "]")})
	if err == nil || !strings.Contains(err.Error(), "more than 100000 rules") {
		t.Errorf("%.200v", err)
	}
}

func TestTiersAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("tiers:\n")
	for i := range 2 * maxTiers {
		fmt.Fprintf(&text, "  t%d: 1/s\n", i)
	}
	_, err := Parse(File{"many.yaml", []byte(text.String())})
	if err == nil || !strings.HasPrefix(err.Error(), "many.yaml:1002:3: more than 1000 tiers") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%.200v", err)
	}
}

// Every rule has a limit for each tier and for each tier of every override.
func TestLimitsAreBounded(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("compiles half a million limits")
	}
	var text strings.Builder
	text.WriteString("tiers:\n")
	for i := range maxTiers {
		fmt.Fprintf(&text, "  t%d: 1/s\n", i)
	}
	text.WriteString("rules:\n")
	for i := range maxLimits/maxTiers/2 + 1 {
		fmt.Fprintf(&text, "  - {id: r%d, override: {k: 2/s}}\n", i)
	}
	_, err := Parse(File{"many.yaml", []byte(text.String())})
	if err == nil || !strings.Contains(err.Error(), "more than 500000 limits") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%.200v", err)
	}
}

func TestNestingIsBounded(t *testing.T) {
	for _, open := range []string{"[", "{", "- ", "? ", "a: [", "{\"a\":"} {
		if _, err := Parse(File{"deep.yaml", []byte(strings.Repeat(open, 100_000))}); err == nil {
			t.Errorf("%s loads", open)
		}
	}
	deep := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	if _, err := Parse(File{"deep.json", []byte(`{"rules": ` + deep + `}`)}); err == nil {
		t.Error("deep JSON loads")
	}
}

func TestTheBuiltinRulesHoldKeysAndAddresses(t *testing.T) {
	s := Builtin()
	if s == nil || len(s.Warnings()) != 0 {
		t.Fatal("no built-in rules, or warnings")
	}
	now := int64(1_700_000_000_000_000)
	store := newStore(t, &now)
	allowed := func(n int, keys func(i int) string) (count int) {
		for i := range n {
			o, err := s.Decide(t.Context(), store, Map{"api_key": keys(i), "ip": "192.0.2.1"}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if o.Allowed() {
				count++
			}
		}
		return count
	}
	if n := allowed(200, func(int) string { return "one" }); n != 100 {
		t.Errorf("one key is allowed %d", n)
	}
	if n := allowed(2000, func(i int) string { return strings.Repeat("k", i+1) }); n != 900 {
		t.Errorf("made-up keys are allowed %d more", n)
	}
}

// The rules accept the same parameters of each algorithm as its limit.
func TestParametersAreThoseOfTheAlgorithms(t *testing.T) {
	values := map[parameter]string{
		pLimit: "10", pWindow: "60", pCapacity: "10", pRefillRate: "1", pBuckets: "2", pQueue: "1", pMaxWait: "1s",
		pPeriod: "day", pAnchor: "2026-01-01T00:00:00Z", pUTCOffset: "+01:00",
	}
	for i, name := range stint.Algorithms() {
		a := stint.Algorithm(i)
		for p, text := range values {
			s := stint.Spec{Algorithm: a}
			if err := p.parse(text, &s); err != nil {
				t.Fatal(err)
			}
			_, err := s.Compile()
			foreign := err != nil && strings.Contains(err.Error(), parameterNames[p]+": is not a parameter")
			if p.takes(a) == foreign {
				t.Errorf("%s takes %s: %t, but %v", name, parameterNames[p], p.takes(a), err)
			}
		}
	}
}

func TestAWindowBelongsToTheRateBesideIt(t *testing.T) {
	for _, c := range []struct{ fact, text, want string }{
		{"the tier's window is the tier's rate's", "tiers: {t: {limit: 100, window: 60}}\nrules: [{id: r, tier: t, params: {refill_rate: 5}}]", "token_bucket, capacity 10, 5 a second"},
		{"a window that describes is no rate's", "tiers: {t: {refill_rate: 5, window: 60}}\ndefaults: {window: 10}\nrules: [{id: r, tier: t, limit: 100}]", "token_bucket:10s 100 per 10s, capacity 100"},
		{"a window alone is for a limit below", "defaults: {limit: 100, window: 60}\nrules: [{id: r, window: 1}]", "token_bucket:1s 100 per 1s, capacity 100"},
		{"a limit alone takes the window below", "defaults: {limit: 100, window: 60}\nrules: [{id: r, limit: 5}]", "token_bucket:1m 5 per 1m, capacity 5"},
		{"the nearest capacity wins", "defaults: {limit: 100, window: 60, capacity: 7}\nrules: [{id: r, limit: 5/s}]", "token_bucket:1s 5 per 1s, capacity 7"},
		{"what an algorithm lacks is passed over", "defaults: {limit: 100, window: 60, capacity: 7, buckets: 2}\nrules: [{id: r, algorithm: fixed_window}]", "fixed_window:1m 100 per 1m"},
		{"a limit per window is none per month", "defaults: {limit: 100, window: 60}\nrules: [{id: r, algorithm: quota, limit: 5, period: day}]", "quota:day 5 per day"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := mustParse(t, c.text)
			limits := s.Rules()[0].Effective(s)[0].Limits
			if len(limits) != 1 || limits[0].String() != c.want {
				t.Errorf("got %v, want %s", limits, c.want)
			}
		})
	}
}

// FuzzParse checks that no file causes a panic and that every problem has a
// position.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"testdata/good", "testdata/bad"} {
		names, err := fileNames(folder)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			if len(data) < 10_000 {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(File{"fuzz.yaml", data})
		if (s == nil) == (err == nil) {
			t.Fatal("neither a set nor an error, or both")
		}
		if err == nil {
			fuzzDecide(t, s)
			return
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + 1
		for _, p := range err.(Problems) { //nolint:errorlint // the test requires this type.
			if p.What == "" || p.Line > lines+1 || p.Line > 0 && p.Column < 1 {
				t.Fatalf("%d lines, but %#v", lines, p)
			}
		}
	})
}

// fuzzDecide decides a request with a set that was parsed.
func fuzzDecide(t *testing.T, s *Set) {
	t.Helper()
	now := int64(0)
	a := Map{"api_key": "k", "ip": "10.0.0.1", "path": "/a", "host": "h", "method": "GET", "tier": "free"}
	if _, err := s.Decide(t.Context(), newStore(t, &now), a, 1); err != nil {
		var e *stint.Error
		if !errors.As(err, &e) || e.Code == stint.CodeInternal {
			t.Fatal(err)
		}
	}
}
