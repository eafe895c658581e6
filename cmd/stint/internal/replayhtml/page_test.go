package replayhtml

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/rule"
)

// The files of uPlot are those of the release that the license stands beside, unchanged.
func TestUPlotIsTheReleaseNamed(t *testing.T) {
	if !strings.Contains(uPlotScript[:80], "uPlot (v1.6.32)") {
		t.Errorf("uPlot begins with %q", uPlotScript[:80])
	}
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE":           "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		text, err := os.ReadFile("uplot/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("the hash of %s is %x, want %s", name, sum, want)
		}
	}
}

// hostile are texts that callers choose. Each has the word evil.
var hostile = []string{
	`<script>evil()</script>`, `</script><script>evil()</script>`, `</style><img src=x onerror=evil()>`, `<!--<script>evil`, `]]>evil`,
	`" onload="evil()`, `' onload='evil()`, "`evil${1}`", `{{evil}}`, `javascript:evil()`, `&lt;script&gt;evil`,
	"evil\u2028\u2029", "evil\x00nul", "evil\xff\xfe", "evil\u202egpj.exe", "evil\u2066\u200f", "evil\r\nSet-Cookie: a=b",
	"evil" + strings.Repeat("w", 10_000),
}

// replayed returns the page of a replay whose callers choose hostile texts.
func replayed(t *testing.T, against bool) (text string) {
	t.Helper()
	set := parsed(t, `
rules:
  - {id: "by-ip", match: {path_prefix: /}, by: [ip], limit: 1/m}
  - {id: "keys", match: {api_key_pattern: "sk_evil_*"}, by: [user], limit: 1/h, mode: shadow, override: {sk_evil_partner: {limit: 9}}}
`)
	o := replay.Options{Rules: set, Alone: true, ShowKeys: true, Top: 100}
	p := &Page{Inputs: hostile, Rules: []RuleSet{{Name: hostile[0], Rules: ruleedit.InWords(set)}}}
	if against {
		o.Against = parsed(t, "rules: [{id: other, by: [user], limit: 2/m}]")
		o.AgainstName = hostile[1]
		p.Rules = append(p.Rules, RuleSet{Name: hostile[1], Rules: ruleedit.InWords(o.Against)})
	}
	var events bytes.Buffer
	for i, text := range hostile {
		for n := range 5 {
			line, err := json.Marshal(map[string]any{
				"t_us": 1_772_521_920_000_000 + n*7_000_000, "user": text, "api_key": text, "ip": fmt.Sprintf("192.0.2.%d", i),
				"path": "/" + text, "header:user-agent": text, "status": text,
			})
			if err != nil {
				t.Fatal(err)
			}
			events.Write(append(line, '\n'))
		}
	}
	events.WriteString(hostile[0] + "\n")
	log := events.Bytes()
	report, err := replay.Run(t.Context(), o, replay.Input{Name: hostile[0], Reader: bytes.NewReader(log)})
	if err != nil {
		t.Fatal(err)
	}
	o.Against, o.Retries = nil, replay.PoliteRetries // a comparison has no retries of its own
	retried, err := replay.Run(t.Context(), o, replay.Input{Name: hostile[0], Reader: bytes.NewReader(log)})
	report.Retries = retried.Retries
	if err != nil {
		t.Fatal(err)
	}
	if len(report.TopCallers) < len(hostile)-2 {
		t.Fatalf("%d callers are denied", len(report.TopCallers))
	}
	p.Report = &report
	return written(t, p)
}

func parsed(t *testing.T, text string) *rule.Set {
	t.Helper()
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func written(t *testing.T, p *Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, p); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var (
	scriptElement = regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`)
	styleElement  = regexp.MustCompile(`(?s)<style([^>]*)>(.*?)</style>`)
	policyElement = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`)
	anyTag        = regexp.MustCompile(`</?([a-zA-Z0-9]+)([^<>]*)>`)
	attribute     = regexp.MustCompile(`\s([a-z-]+)(?:="[^"]*")?`)
)

// Texts of callers are text: they add neither an element nor an attribute to a page.
func TestTextsOfCallersAreText(t *testing.T) {
	page := replayed(t, true)
	scripts := scriptElement.FindAllStringSubmatch(page, -1)
	if len(scripts) != 3 || scripts[0][1] != ` type="application/json" id="data"` || scripts[1][2] != uPlotScript || scripts[2][2] != pageScript {
		t.Fatalf("the page has %d scripts", len(scripts))
	}
	if styles := styleElement.FindAllStringSubmatch(page, -1); len(styles) != 2 || styles[0][2] != uPlotStyle || styles[1][2] != pageStyle {
		t.Fatalf("the page has %d styles", len(styles))
	}
	markup := styleElement.ReplaceAllString(scriptElement.ReplaceAllString(page, ""), "")
	known := " html head meta title body main h1 h2 h3 p strong bdi section div table thead tbody tr th td figure figcaption details summary ul li br "
	attributes := " lang dir charset http-equiv content name id class scope role aria-labelledby aria-label tabindex "
	for _, tag := range anyTag.FindAllStringSubmatch(markup, -1) {
		if !strings.Contains(known, " "+tag[1]+" ") {
			t.Errorf("the page has the element %.80q", tag[0])
		}
		for _, a := range attribute.FindAllStringSubmatch(tag[2], -1) {
			if !strings.Contains(attributes, " "+a[1]+" ") {
				t.Errorf("the page has the attribute %.80q", tag[0])
			}
		}
	}
	if rest := anyTag.ReplaceAllString(markup, ""); strings.Contains(strings.Replace(rest, "<!DOCTYPE html>", "", 1), "<") {
		t.Error("the page has a < outside of its elements")
	}
	for _, bad := range []string{"\x00", "\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\r", strings.Repeat("w", mostText+1)} {
		if strings.Contains(markup, bad) {
			t.Errorf("the page has %.20q", bad)
		}
	}
	for _, want := range []string{"&lt;script&gt;evil()&lt;/script&gt;", "Callers newly", "retries", "Lines that could not be read", "counted by user", "mode shadow"} {
		if !strings.Contains(markup, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(markup, "sk_evil") {
		t.Error("the page has a credential of a rule")
	}
}

// A caller whose paths vary has other words than one of a log without user agents.
func TestValuesThatVaryAreToldFromNone(t *testing.T) {
	page := written(t, &Page{Report: &replay.Report{TopCallers: []replay.Caller{{Caller: "a", PathsVary: true, LookedAt: 9, Status: []replay.Value{{Value: "200", Count: 9}}}}}})
	if want := "<td>-</td><td>various</td><td><bdi>200</bdi> 100.00 %</td>"; !strings.Contains(page, want) {
		t.Errorf("the page lacks %q", want)
	}
}

// The policy allows the scripts and the styles of the page, and nothing else.
func TestPolicyAllowsOnlyThePage(t *testing.T) {
	page := replayed(t, false)
	m := policyElement.FindStringSubmatch(page)
	if m == nil || strings.Index(page, m[0]) > strings.Index(page, "<style>") {
		t.Fatal("the page has no policy before its styles")
	}
	hashOf := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	want := "default-src 'none'; script-src"
	for _, s := range scriptElement.FindAllStringSubmatch(page, -1)[1:] {
		want += hashOf(s[2])
	}
	want += "; style-src"
	for _, s := range styleElement.FindAllStringSubmatch(page, -1) {
		want += hashOf(s[2])
	}
	if got := html.UnescapeString(m[1]); got != want+"; base-uri 'none'; form-action 'none'" {
		t.Errorf("the policy is %s, want %s", got, want)
	}
	for _, own := range []string{uPlotScript, pageScript, uPlotStyle, pageStyle} {
		if strings.Contains(own, "</") || strings.Contains(own, "<!--") {
			t.Error("a script or style of the page would end its element")
		}
	}
	for _, network := range []string{"src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon"} {
		if strings.Contains(strings.ReplaceAll(page, "img src=x", ""), network) {
			t.Errorf("the page has %q", network)
		}
	}
}

// The charts have what the report counts, and their tables have the same numbers.
func TestChartsHaveTheCountsOfTheReport(t *testing.T) {
	page := replayed(t, true)
	var got charts
	if err := json.Unmarshal([]byte(scriptElement.FindStringSubmatch(page)[2]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Steps == 0 || len(got.Charts) < 5 || len(got.Charts) != strings.Count(page, `class="chart"`) {
		t.Fatalf("got %d charts of %d steps", len(got.Charts), got.Steps)
	}
	for i := range got.Charts {
		c := &got.Charts[i]
		for l := range c.Lines {
			if len(c.Lines[l].Counts) != got.Steps {
				t.Errorf("line %s has %d steps, want %d", c.Lines[l].Name, len(c.Lines[l].Counts), got.Steps)
			}
			var chart, table int64
			for _, n := range c.Lines[l].Counts {
				chart += n
			}
			rows := c.Rows()
			for _, r := range rows {
				table += r.Counts[l]
			}
			if chart != table || len(rows) > mostRows {
				t.Errorf("the table has %d in %d rows, the chart %d", table, len(rows), chart)
			}
		}
	}
}

func TestPageOfALimit(t *testing.T) {
	limit := stint.MustParseLimit("1/m")
	events := `{"t_us":1772521920000000,"key":"a"}` + "\n" + `{"t_us":1772521920000001,"key":"a"}` + "\n"
	report, err := replay.Run(t.Context(), replay.Options{Limit: limit, By: "key"}, replay.Input{Name: "log", Reader: strings.NewReader(events)})
	if err != nil {
		t.Fatal(err)
	}
	page := written(t, &Page{Report: &report, Inputs: []string{"log"}, Limit: limit.String(), By: "key"})
	if n := strings.Count(page, `class="chart"`); n != 1 || strings.Contains(page, "in words") || !strings.Contains(page, "for each key") {
		t.Errorf("the page has %d charts", n)
	}
}

// A log without events gives a page without charts.
func TestPageWithoutEvents(t *testing.T) {
	page := written(t, &Page{Report: &replay.Report{}, Limit: "1/m", By: "ip"})
	if strings.Contains(page, `class="chart"`) || !strings.Contains(page, "0</strong> of 0 requests denied") {
		t.Error(page[:min(len(page), 200)])
	}
}

// Many rules have a page of bounded length: only those with the most denials have a chart.
func TestOnlyTheRulesWithTheMostDenialsHaveAChart(t *testing.T) {
	r := &replay.Report{OverTime: replay.Series{StepUS: 1_000_000, Events: []int64{9}, Denied: []int64{9}}}
	for i := range 100 {
		r.PerRule = append(r.PerRule, replay.RuleCount{Rule: fmt.Sprint("r", i), Denied: int64(i), EventsOverTime: []int64{9}, DeniedOverTime: []int64{1}})
	}
	c := chartsOf(r)
	if len(c.Charts) != mostCharts+1 || c.LeftOut != 100-mostCharts || !strings.HasPrefix(c.Charts[1].Title, "Rule r99") {
		t.Errorf("%d charts, %d left out, the first of %s", len(c.Charts), c.LeftOut, c.Charts[1].Title)
	}
}
