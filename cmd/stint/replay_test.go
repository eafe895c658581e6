package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

const sampleLog = "internal/replay/testdata/sample_access.log"

// runIn runs a command within this process.
func runIn(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	status := run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return result{status, out.String(), errs.String()}
}

// A report without events says why it is empty.
func TestEmptyLogsAreReported(t *testing.T) {
	empty := writeFile(t, filepath.Join(t.TempDir(), "empty.log"), "")
	for _, command := range [][]string{
		{"replay", "--limit", "1/m", "--by", "ip"}, {"replay", "--limit", "1/m", "--sweep", "limit=1..2", "--by", "ip"}, {"suggest", "--by", "ip"},
	} {
		if got := runIn(t, "", append(command, empty)...); got.status != 0 || !strings.Contains(got.errors, "nothing was read: the inputs have no lines (check") {
			t.Errorf("%v: %+v", command, got)
		}
		if got := runIn(t, "", append(command, "--until", "2001-01-01T00:00:00Z", sampleLog)...); got.status != 0 || !strings.Contains(got.errors, "nothing was read: no event is within --since and --until, and 39 are outside") {
			t.Errorf("%v: %+v", command, got)
		}
		if got := runIn(t, "", append(command, "none.log")...); got.status != exitFailed || !strings.Contains(got.errors, "open none.log: ") || !strings.Contains(got.errors, "(check the name, and the folder in which the command runs)") {
			t.Errorf("%v: %+v", command, got)
		}
		if got := runIn(t, "", append(command, sampleLog)...); strings.Contains(got.errors, "nothing was read") {
			t.Errorf("%v: %+v", command, got)
		}
	}
}

// Events after a line with a time far ahead are not put in order, which changes the decisions on them.
func TestLateEventsAreWarnedOf(t *testing.T) {
	jump := `192.0.2.99 - - [03/Mar/2100:07:12:00 +0000] "GET / HTTP/1.1" 200 1`
	jumps := writeFile(t, filepath.Join(t.TempDir(), "jump.log"), jump+"\n"+contentOf(t, sampleLog))
	for _, command := range [][]string{
		{"replay", "--limit", "6/m", "--by", "ip"}, {"replay", "--limit", "6/m", "--sweep", "limit=6..7", "--by", "ip"}, {"suggest", "--by", "ip"},
	} {
		got := runIn(t, "", append(command, jumps)...)
		if got.status != 0 || !strings.Contains(got.errors, "10 of 40 events are late, so more of them are denied\n") || !strings.Contains(got.errors, "(the last time is 2100-03-03T07:12:00Z)\n") || !strings.Contains(got.errors, "give the files of a rotated log as separate arguments") || !regexp.MustCompile(`(?m)^late +10$`).MatchString(got.out) {
			t.Errorf("%v: %+v", command, got)
		}
		for _, orderly := range [][]string{{sampleLog}, {sampleLog, sampleLog}, {"--until", "2030-01-01T00:00:00Z", jumps}} {
			if got := runIn(t, "", append(command, orderly...)...); got.status != 0 || strings.Contains(got.errors, "late") {
				t.Errorf("%v %v: %+v", command, orderly, got)
			}
		}
	}
}

func TestReplayRefusesWrongUsage(t *testing.T) {
	folder := t.TempDir()
	wrongRules := filepath.Join(folder, "wrong.yaml")
	if err := os.WriteFile(wrongRules, []byte("rules:\n  - id: a\n    limitt: 10\n    window: 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sweptRules := filepath.Join(folder, "swept.yaml")
	if err := os.WriteFile(sweptRules, []byte("rules:\n  - {id: a, by: [ip], limit: 1/m}\n  - {id: two, by: [ip], limits: [1/m, 9/h]}\n  - {id: none, mode: \"off\", limit: 1/m}\n  - {id: shut, by: [ip], deny_all: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := writeFile(t, filepath.Join(folder, "rules.yaml"), "rules:\n  - {id: one, by: [ip], limit: 1, window: 60}\n")
	for name, c := range map[string]struct {
		status int
		want   string
		args   []string
	}{
		"noInput":          {2, "give at least one input, such as access.log", []string{"--limit", "10/m", "--by", "ip"}},
		"nothingToDecide":  {2, "either --rules FILE, or --limit LIMIT and --by ATTR", []string{sampleLog}},
		"both":             {2, "either --rules FILE", []string{"--rules", "r.yaml", "--limit", "10/m", sampleLog}},
		"byBesideRules":    {2, "--by: belongs to --limit", []string{"--rules", "r.yaml", "--by", "ip", sampleLog}},
		"limitWithoutBy":   {2, "--by: is missing", []string{"--limit", "10/m", sampleLog}},
		"wrongLimit":       {2, `"10/x" is not a limit`, []string{"--limit", "10/x", "--by", "ip", sampleLog}},
		"wrongRules":       {2, "wrong.yaml:3:5:", []string{"--rules", wrongRules, sampleLog}},
		"pipedRules":       {2, "--rules: - names no rules here", []string{"--rules", "-", sampleLog}},
		"noRules":          {2, "none.yaml", []string{"--rules", "none.yaml", sampleLog}},
		"otherStore":       {2, "store: mysql:// is not a store", []string{"--store", "mysql://user:secret@host/0", "--limit", "10/m", "--by", "ip", sampleLog}},
		"wrongStore":       {2, "a cluster has only database 0", []string{"--store", "redis-cluster://user:secret@host/1", "--limit", "10/m", "--by", "ip", sampleLog}},
		"wrongFormat":      {2, `--format: "csv" is not known`, []string{"--format", "csv", "--limit", "10/m", "--by", "ip", sampleLog}},
		"unknownBy":        {2, `--by: no event has the attribute "pth" (did you mean "path"?)`, []string{"--limit", "10/m", "--by", "pth", sampleLog}},
		"wrongLogFormat":   {2, "--log-format: has no time", []string{"--log-format", "$status", "--limit", "10/m", "--by", "ip", sampleLog}},
		"twoFormats":       {2, "--log-format: is given beside --format alb", []string{"--log-format", "$msec", "--format", "alb", "--limit", "10/m", "--by", "ip", sampleLog}},
		"wrongSince":       {2, `--since: "yesterday" is not a time`, []string{"--since", "yesterday", "--limit", "10/m", "--by", "ip", sampleLog}},
		"wrongUntil":       {2, `--until: "-2h" is not a time`, []string{"--until", "-2h", "--limit", "10/m", "--by", "ip", sampleLog}},
		"emptySpan":        {2, "--since: 1h is not before --until 2h", []string{"--since", "1h", "--until", "2h", "--limit", "10/m", "--by", "ip", sampleLog}},
		"sweepOfRules":     {2, `--sweep: "limit" names no rule of --rules (write it as RULE.limit=…)`, []string{"--sweep", "limit=1..2", "--rules", sweptRules, sampleLog}},
		"sweepOfNoRule":    {2, `--sweep: --rules has no rule "b" (use one of a, two, none, shut)`, []string{"--sweep", "b.limit=1..2", "--rules", sweptRules, sampleLog}},
		"sweepWithoutRule": {2, `--sweep: "a.limit" names a rule, and there are no --rules (write it as limit=…)`, []string{"--sweep", "a.limit=1..2", "--limit", "1/m", "--by", "ip", sampleLog}},
		"sweepOfLimits":    {2, `--sweep: the rule "two" has no single limit to vary`, []string{"--sweep", "two.limit=1..2", "--rules", sweptRules, sampleLog}},
		"sweepOfNumber":    {2, `--sweep: "size" is not a number of a limit (use one of limit, burst, queue, window)`, []string{"--sweep", "a.size=1..2", "--rules", sweptRules, sampleLog}},
		"sweepOfNearRule":  {2, `--sweep: --rules has no rule "tow" (did you mean two?)`, []string{"--sweep", "tow.limit=1..2", "--rules", sweptRules, sampleLog}},
		"sweepOfModeOff":   {2, `--sweep: the rule "none" has no single limit to vary`, []string{"--sweep", "none.limit=1..2", "--rules", sweptRules, sampleLog}},
		"sweepOfDenyAll":   {2, `--sweep: the rule "shut" has no single limit to vary`, []string{"--sweep", "shut.limit=1..2", "--rules", sweptRules, sampleLog}},
		"sweepNearNumber":  {2, `--sweep: "limits" is not a number of a limit (did you mean limit?)`, []string{"--sweep", "a.limits=1..2", "--rules", sweptRules, sampleLog}},
		"sweepFromZero":    {2, `--sweep: a.limit: the first value "0" is out of range (use a whole number from 1 to 1000000000)`, []string{"--sweep", "a.limit=0..2", "--rules", sweptRules, sampleLog}},
		"sweepToHuge":      {2, `--sweep: a.limit: the last value "9000000000" is out of range`, []string{"--sweep", "a.limit=1..9000000000", "--rules", sweptRules, sampleLog}},
		"sweepStepZero":    {2, `--sweep: a.limit: the step "0" is out of range (use a whole number from 1 to`, []string{"--sweep", "a.limit=1..2:0", "--rules", sweptRules, sampleLog}},
		"sweepOfNoNumber":  {2, `"a.limit" is not a sweep (write it as limit=5..100:5`, []string{"--sweep", "a.limit", "--rules", sweptRules, sampleLog}},
		"sweepOfAlgorithm": {2, `--sweep: a.queue=1: queue: is not a parameter of`, []string{"--sweep", "a.queue=0..2", "--rules", sweptRules, sampleLog}},
		"wrongSweep":       {2, `"limit=5-10" is not a sweep (write it as limit=5..100:5`, []string{"--sweep", "limit=5-10", "--limit", "10/m", "--by", "ip", sampleLog}},
		"wrongNumber":      {2, `--sweep: "size" is not a number of a limit`, []string{"--sweep", "size=5..10", "--limit", "10/m", "--by", "ip", sampleLog}},
		"sweepDescends":    {2, `--sweep: limit: the first value, 10, is above the last (write 5..10)`, []string{"--sweep", "limit=10..5", "--limit", "10/m", "--by", "ip", sampleLog}},
		"sweepTooLong":     {2, `has 96 values (use at most 32: a greater step, such as :4)`, []string{"--sweep", "limit=5..100", "--limit", "10/m", "--by", "ip", sampleLog}},
		"sweepNotCompiled": {2, `--sweep: queue=1: `, []string{"--sweep", "queue=1..2", "--limit", "10/m", "--by", "ip", sampleLog}},
		"wrongRetries":     {2, `--retries: "rude" is not known (use one of none, polite, hammer)`, []string{"--retries", "rude", "--limit", "10/m", "--by", "ip", sampleLog}},
		"sweepOfRetries":   {2, "--sweep: decides by several limits in memory, so it cannot be used beside --retries", []string{"--retries", "polite", "--sweep", "limit=1..2", "--limit", "10/m", "--by", "ip", sampleLog}},
		"negativeReorder":  {2, "--reorder: -1s is below 0", []string{"--reorder", "-1s", "--limit", "10/m", "--by", "ip", sampleLog}},
		"inputIsAFolder":   {2, "is a folder", []string{"--limit", "10/m", "--by", "ip", folder}},
		"noSuchInput":      {1, "none.log", []string{"--limit", "10/m", "--by", "ip", sampleLog, "none.log"}},
		"decisionsAreIn":   {2, "is an input", []string{"--limit", "10/m", "--by", "ip", "--decisions", sampleLog, sampleLog}},
		"decisionsNoPath":  {1, "decisions:", []string{"--limit", "10/m", "--by", "ip", "--decisions", filepath.Join(folder, "no", "file"), sampleLog}},
		"allUnreadable":    {1, "not one line could be read", []string{"--limit", "10/m", "--by", "ip", wrongRules}},
		"htmlNoFolder":     {1, "html:", []string{"--limit", "10/m", "--by", "ip", "--html", filepath.Join(folder, "no", "report.html"), sampleLog}},
		"htmlIsAnInput":    {2, "--html: " + sampleLog + " is an input", []string{"--limit", "10/m", "--by", "ip", "--html", sampleLog, sampleLog}},
		"htmlIsAFolder":    {2, "is not a file", []string{"--limit", "10/m", "--by", "ip", "--html", folder, sampleLog}},
		"twoOnOutput":      {2, "--html: standard output has the decisions", []string{"--limit", "10/m", "--by", "ip", "--html", "-", "--decisions", "-", sampleLog}},
		"htmlIsDecisions":  {2, "is the file of --decisions", []string{"--limit", "10/m", "--by", "ip", "--html", "x.html", "--decisions", "./x.html", sampleLog}},
		"htmlOfASweep":     {2, "cannot be used beside --html", []string{"--html", "x.html", "--sweep", "limit=1..2", "--limit", "10/m", "--by", "ip", sampleLog}},
		"topOfNone":        {2, "--top: 0 is out of range", []string{"--top", "0", "--limit", "10/m", "--by", "ip", sampleLog}},
		"againstALimit":    {2, "--against: belongs to --rules", []string{"--against", "r.yaml", "--limit", "10/m", "--by", "ip", sampleLog}},
		"againstNone":      {2, "none.yaml", []string{"--rules", rules, "--against", "none.yaml", sampleLog}},
		"serverForNone":    {2, "--server: no rules are read from a server", []string{"--rules", rules, "--server", "http://127.0.0.1:1", sampleLog}},
		"noServer":         {1, "--against live: ", []string{"--rules", rules, "--against", "live", "--server", "http://127.0.0.1:1", sampleLog}},
		"noHashFile":       {2, "--key-hash-file: ", []string{"--rules", rules, "--key-hash-file", "none", sampleLog}},
		"againstRetries":   {2, "--against: cannot be used beside --retries", []string{"--rules", rules, "--against", rules, "--retries", "polite", sampleLog}},
		"sweepOfTwo":       {2, "cannot be used beside --against", []string{"--against", rules, "--sweep", "limit=1..2", "--limit", "10/m", "--by", "ip", sampleLog}},
	} {
		t.Run(name, func(t *testing.T) {
			got := runIn(t, "", append([]string{"replay"}, c.args...)...)
			if got.status != c.status || !strings.Contains(got.errors, c.want) {
				t.Errorf("status %d and %q, want %d and …%s…", got.status, got.errors, c.status, c.want)
			}
			if strings.Contains(got.errors, "secret") {
				t.Errorf("shows a password: %s", got.errors)
			}
		})
	}
}

func TestReplaySummary(t *testing.T) {
	got := runIn(t, "", "replay", "--limit", "3/m", "--by", "ip", "--json", sampleLog)
	var s replay.Report
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || got.status != 0 {
		t.Fatal(err, got)
	}
	if s.Events != 39 || s.Allowed+s.Denied != 39 || s.Unreadable != 1 || s.UnreadableLines[0].Line != 13 {
		t.Errorf("got %+v", s)
	}
	if !strings.Contains(got.errors, sampleLog+":13: ends within its request") {
		t.Errorf("the cut line is not shown: %s", got.errors)
	}
	for _, field := range []string{"keys", "share_denied", "per_rule", "top_keys_denied", "late"} {
		if !strings.Contains(got.out, `"`+field+`":`) {
			t.Errorf("%s is missing in\n%s", field, got.out)
		}
	}
}

// A replay decides without penalties, and says so.
func TestReplayWarnsOfPenalties(t *testing.T) {
	const limited = "{id: login, by: [ip], limit: 5, window: 60"
	for _, c := range []struct {
		rule string
		want bool
	}{{limited + ", penalty: {after: 3}}", true}, {limited + "}", false}, {limited + ", penalty: {after: 3}, mode: shadow}", false}} {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(file, []byte("rules:\n  - "+c.rule+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := runIn(t, "", "replay", "--rules", file, sampleLog)
		if warned := strings.Contains(got.errors, "--rules: a replay counts no penalties, so live the rules with a penalty deny more (the first is login)"); warned != c.want || got.status != 0 {
			t.Errorf("%s: status %d, and warned %v: %s", c.rule, got.status, warned, got.errors)
		}
	}
}

func TestReplayDecisionsOnStandardOutputAreAlone(t *testing.T) {
	event := `{"t_us":1431857103000001,"key":"a"}` + "\n"
	got := runIn(t, event, "replay", "--limit", "3/m", "--by", "key", "--decisions", "-", "-")
	want := `{"n":1,"t_us":1431857103000001,"rule":"","key":"a","allowed":true,"limit":3,"remaining":2,"retry_after_us":0,"reset_after_us":20000000,"delay_us":0}` + "\n"
	if got.status != 0 || got.out != want || !strings.HasPrefix(got.errors, "events") {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestReplayWritesAPage(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "report.html")
	for range 2 { // the second page replaces the first
		if got := runIn(t, "", "replay", "--limit", "6/m", "--by", "ip", "--html", path, sampleLog); got.status != 0 || !strings.Contains(got.out, "share denied") {
			t.Fatalf("got %+v", got)
		}
	}
	page := contentOf(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 || !strings.HasPrefix(page, "<!DOCTYPE html>") || !strings.HasSuffix(page, "</html>\n") {
		t.Errorf("%v: got %.100q", err, page)
	}
	onOutput := runIn(t, "", "replay", "--limit", "6/m", "--by", "ip", "--html", "-", sampleLog)
	if onOutput.out != page || !strings.Contains(onOutput.errors, "share denied") {
		t.Errorf("got %.100q and %.200q", onOutput.out, onOutput.errors)
	}
	// A replay that fails keeps the page, and leaves no other file.
	if got := runIn(t, "", "replay", "--limit", "6/m", "--by", "pth", "--html", path, sampleLog); got.status == 0 || contentOf(t, path) != page {
		t.Errorf("got %+v", got)
	}
	if got := runIn(t, "no line of a log\n", "replay", "--limit", "6/m", "--by", "ip", "--html", path, "-"); got.status == 0 || contentOf(t, path) != page {
		t.Errorf("got %+v", got)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("%v: the folder has %v", err, entries)
	}
}

func TestReplayHidesCredentials(t *testing.T) {
	event := `{"t_us":1431857103000001,"api_key":"sk_live_0123456789abcdef","ip":"192.0.2.1"}` + "\n"
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules:\n  - {id: one, by: [api_key], limit: 1, window: 60}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range [][]string{{"--limit", "1/m", "--by", "api_key"}, {"--rules", rules}} {
		got := runIn(t, event+event, append(append([]string{"replay"}, how...), "-")...)
		if got.status != 0 || strings.Contains(got.out, "sk_live_0123456789abcdef") || !strings.Contains(got.out, "sk_live_…") {
			t.Errorf("%v: got %+v", how, got)
		}
	}
}

// Two keys that begin alike differ in the report. The hash is that of the decision log.
func TestReplayTellsShortenedKeysApart(t *testing.T) {
	line := `{"t_us":1431857103000001,"api_key":"sk_live_0123456789abcdef%d"}` + "\n"
	events := strings.Repeat(fmt.Sprintf(line, 1), 3) + strings.Repeat(fmt.Sprintf(line, 2), 2)
	secret := writeFile(t, filepath.Join(t.TempDir(), "secret"), "a secret of at least 16 bytes")
	key, err := decisionlog.ReadKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	got := runIn(t, events, "replay", "--limit", "1/m", "--by", "api_key", "--key-hash-file", secret, "-")
	for _, n := range []string{"1", "2"} {
		if want := "sk_live_…" + key.Hash("sk_live_0123456789abcdef" + n)[:6]; !strings.Contains(got.out, want) {
			t.Errorf("%s is missing in\n%s%s", want, got.out, got.errors)
		}
	}
	if got := runIn(t, events, "replay", "--limit", "1/m", "--by", "api_key", "--show-keys", "--top", "1", "-"); !strings.Contains(got.out, "sk_live_0123456789abcdef1") || strings.Contains(got.out, "abcdef2") {
		t.Errorf("got %s%s", got.out, got.errors)
	}
}

// Rules in force, or of a version, are read from a real server.
func TestReplayComparesWithAServer(t *testing.T) {
	a := administer(t)
	strict := a.file("strict.yaml", "rules:\n  - {id: one, by: [ip], limit: 3, window: 60}\n")
	loose := a.file("loose.yaml", "rules:\n  - {id: one, by: [ip], limit: 100, window: 60}\n")
	a.run(exitDone, nil, "rules", "apply", "--yes", strict)
	a.run(exitDone, nil, "rules", "apply", "--yes", loose)
	log := absolute(t, sampleLog)
	change := func(rules, against string) *replay.Comparison {
		t.Helper()
		var r replay.Report
		got := command(t, a.env, "replay", "--rules", rules, "--against", against, "--json", log)
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || r.Compare == nil {
			t.Fatalf("%v: %+v", err, got)
		}
		return r.Compare
	}
	if c := change("live", strict); c.NewlyDenied == 0 || c.NewlyAllowed != 0 || c.With != strict {
		t.Errorf("got %+v", c)
	}
	if c := change(strict, "live"); c.NewlyAllowed == 0 || c.NewlyDenied != 0 || !strings.HasPrefix(c.With, "version 2") {
		t.Errorf("got %+v", c)
	}
	if c := change(strict, "1"); c.NewlyAllowed+c.NewlyDenied != 0 || c.Denied == 0 {
		t.Errorf("got %+v", c)
	}
	a.run(exitFailed, []string{"--against 9: "}, "replay", "--rules", strict, "--against", "9", log)
}

func TestProgressLineText(t *testing.T) {
	p := &progressLine{size: 4_000_000}
	if got, want := p.text(replay.Progress{Events: 1000, Bytes: 1_000_000}, 2*time.Second), "1000 events, 1.0 MB of 4.0 MB (25 %), 500 events a second"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	fileBlock    = regexp.MustCompile("(?s)`([a-z.]+)`:\n\n```(?:yaml|json)\n(.*?)```")
)

func TestReplayDocumentHolds(t *testing.T) { wantDocumentHolds(t, "../../docs/replay.md", 5, 4) }

// wantDocumentHolds checks that every command in a document prints what the document
// shows, in a folder with the files of the document.
func wantDocumentHolds(t *testing.T, path string, commands, documented int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	sample, err := os.ReadFile(sampleLog)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"access.log": string(sample)}
	for _, m := range fileBlock.FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blocks := consoleBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < commands || len(files) < documented {
		t.Fatalf("found %d commands and %d files in the document", len(blocks), len(files))
	}
	for _, m := range blocks {
		line, want, _ := strings.Cut(strings.TrimPrefix(m[1], "$ "), "\n")
		if got := shell(t, folder, line); got != want {
			t.Errorf("$ %s\ngot\n%swant\n%s", line, got, want)
		}
	}
}

// shell runs a shell command with the program under test in PATH.
func shell(t *testing.T, folder, line string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", line)
	c.Dir = folder
	c.Env = append(cleanEnvironment(), "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("$ %s: %v", line, err)
	}
	var lines strings.Builder
	for l := range strings.Lines(string(out)) {
		lines.WriteString(strings.TrimRight(l, " \n") + "\n")
	}
	return lines.String()
}

func TestReplayOfAPartOfALog(t *testing.T) {
	for _, c := range []struct {
		args            []string
		events, outside int64
	}{
		{[]string{"--since", "2026-03-03T07:12:30Z"}, 22, 17},
		{[]string{"--until", "2026-03-03t07:12:30z"}, 17, 22},
		{[]string{"--since", "1h"}, 0, 39},
		{[]string{"--since", "2d"}, 0, 39},
		{[]string{"--since", "20000d", "--until", "0d"}, 39, 0},
		{[]string{"--until", "0s"}, 39, 0},
	} {
		got := runIn(t, "", append(append([]string{"replay", "--limit", "3/m", "--by", "ip", "--json"}, c.args...), sampleLog)...)
		var s replay.Report
		if err := json.Unmarshal([]byte(got.out), &s); err != nil || s.Events != c.events || s.Outside != c.outside {
			t.Errorf("%v: %v, %d events, %d outside; want %d and %d: %s", c.args, err, s.Events, s.Outside, c.events, c.outside, got.errors)
		}
	}
}
