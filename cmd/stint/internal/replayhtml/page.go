// Package replayhtml writes the report of a replay as one HTML file, for people who decide
// about limits and do not use the command.
//
// The file needs no network and runs nothing but its own script: its Content-Security-Policy
// names the script and the style by their hashes, and forbids everything else. Texts of the
// traffic, such as keys, user agents and paths, are made up by callers. The template escapes
// them, and characters that do not print or that turn the direction of a text are replaced.
//
// Charts are drawn by uPlot, which is in the folder uplot with its license. Without scripts, and
// on paper, each chart has a table.
package replayhtml

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
	//go:embed uplot/uPlot.iife.min.js
	uPlotScript string
	//go:embed uplot/uPlot.min.css
	uPlotStyle string
)

// Page is what a page shows.
type Page struct {
	Report *replay.Report
	Inputs []string // names of the inputs

	// Limit and By are those of a replay of one limit. Rules are empty then.
	Limit, By string

	// Rules are the rules of the replay, and those that they are compared with.
	Rules []RuleSet

	// ShowKeys has credentials in the conditions of rules as they are.
	ShowKeys bool
}

// RuleSet is a rule set in words.
type RuleSet struct {
	Name  string
	Rules []ruleedit.RuleInWords
}

// Write writes a page.
func Write(out io.Writer, p *Page) error {
	return page.Execute(out, &filled{
		Page: p, Policy: policy,
		Scripts: []template.HTML{element("script", uPlotScript), element("script", pageScript)},
		Styles:  []template.HTML{element("style", uPlotStyle), element("style", pageStyle)},
		Charts:  chartsOf(p.Report),
	})
}

// filled is what the template has.
type filled struct {
	*Page

	Policy          string
	Scripts, Styles []template.HTML
	Charts          charts
}

// element returns an element with a text of this package.
func element(name, text string) template.HTML {
	return template.HTML("<" + name + ">" + text + "</" + name + ">") //nolint:gosec // no text of others
}

// policy is the Content-Security-Policy of a page.
var policy = "default-src 'none'; script-src " + hashes(uPlotScript, pageScript) + "; style-src " + hashes(uPlotStyle, pageStyle) + "; base-uri 'none'; form-action 'none'"

func hashes(texts ...string) string {
	sources := make([]string, len(texts))
	for i, text := range texts {
		sum := sha256.Sum256([]byte(text))
		sources[i] = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return strings.Join(sources, " ")
}

// mostText is the number of characters of a text of the traffic that a page shows.
const mostText = 200

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"text":  func(text string) string { return replay.Plain(strings.ToValidUTF8(text, "\ufffd"), mostText) },
	"share": replay.ShareText,
	"time":  replay.TimeText,
	"wait":  replay.WaitText,
	"dict":  dict,
	"join":  func(texts []string) string { return strings.Join(texts, ", ") },
	"part":  func(n, of int64) float64 { return float64(n) / float64(max(1, of)) },
	"want": func(p *filled, name, want string) string {
		if !p.ShowKeys && (name == "api_key_pattern" || replay.SecretAttribute(name)) {
			return "(hidden)"
		}
		return want
	},
}).Parse(pageText))

// dict returns named values for a part of the template.
func dict(pairs ...any) map[string]any {
	values := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i].(string)] = pairs[i+1] //nolint:forcetypeassert // the template has only texts there
	}
	return values
}
