package rule

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// costOf parses the text and returns the bytes that parsing allocated, and the
// error.
func costOf(text string) (bytes uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Parse(File{"hostile.yaml", []byte(text)})
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// After the bound on limits is exceeded, further overrides cost nothing.
func TestOverridesOfManyTiersAreBounded(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("compiles half a million limits")
	}
	var text strings.Builder
	text.WriteString("tiers:\n")
	for i := range maxTiers {
		fmt.Fprintf(&text, "  t%d: 1/s\n", i)
	}
	text.WriteString("rules:\n  - id: r\n    override:\n")
	for i := range 100_000 {
		fmt.Fprintf(&text, "      k%d: {capacity: 3}\n", i)
	}
	bytes, err := costOf(text.String())
	if err == nil || !strings.Contains(err.Error(), "more than 500000 limits") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%.200v", err)
	}
	if bytes > 2500<<20 {
		t.Errorf("it takes %d MB", bytes>>20)
	}
}

func TestManyMergesIntoManyKeysCostLittle(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n  - id: r\n    match:\n      headers:\n        <<: [{}" + strings.Repeat(",{}", 5000) + "]\n")
	for i := range 5000 {
		fmt.Fprintf(&text, "        h%d: x\n", i)
	}
	text.WriteString("    limit: 1/s\n")
	if bytes, err := costOf(text.String()); err != nil || bytes > 100<<20 {
		t.Errorf("%v, %d MB", err, bytes>>20)
	}
}

func TestLimitsOfARuleAndPartsOfAnIdentityAreBounded(t *testing.T) {
	limits := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{limit: 1, window: %ds}", i+1))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	attributes := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprint("part", i))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	for text, want := range map[string]string{
		"rules:\n- {id: r, limits: " + limits(32) + "}":             "",
		"rules:\n- {id: r, limits: " + limits(33) + "}":             "hostile.yaml:2:19: limits is a list of 33 (name at most 32: each is counted for every request)",
		"tiers: {t: {limits: " + limits(33) + "}}":                  "hostile.yaml:1:21: limits is a list of 33 (name at most 32: each is counted for every request)",
		"rules:\n- {id: r, limit: 1/s, by: " + attributes(32) + "}": "",
		"rules:\n- id: r\n  limit: 1/s\n  by: " + attributes(33):    "hostile.yaml:4:254: by: names 33 attributes (use at most 32)",
	} {
		_, err := costOf(text)
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// The key of an override may be an API key: it is in the file but must not be
// in logs.
func TestAMistakeDoesNotRepeatTheKeyOfAnOverride(t *testing.T) {
	_, err := Parse(File{"twice.yaml", []byte("rules:\n- id: r\n  limit: 1/s\n  override:\n    sk_live_secret: 2/s\n    sk_live_secret: 3/s\n")})
	if got := fmt.Sprint(err); got != "twice.yaml:6:5: override has this key a second time (remove it, or the one in line 5)" {
		t.Error(got)
	}
}
