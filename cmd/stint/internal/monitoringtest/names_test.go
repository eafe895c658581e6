package monitoringtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// Parts of an expression that have no names of metrics: texts, matchers, ranges,
	// offsets, and lists of labels.
	noNames = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\boffset\s+\w+|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	// A word, and the parenthesis behind it if it is a function.
	word = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	// A metric in a table of a document, which may have labels: `stint_keys{…}`.
	documented = regexp.MustCompile("`(stint_[a-z_]+)")
)

// metricsOf returns the names of the metrics in an expression.
func metricsOf(expr string) (names []string) {
	expr = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`) // a text may have a brace
	for _, w := range word.FindAllString(noNames.ReplaceAllString(expr, " "), -1) {
		operators := []string{"and", "or", "unless", "bool"}
		if w = strings.TrimSpace(w); !strings.HasSuffix(w, "(") && !slices.Contains(operators, w) {
			names = append(names, w)
		}
	}
	return names
}

func TestMetricsOf(t *testing.T) {
	const expr = `sum by (job) (rate(stint_keys{a="}b"}[5m])) / on (job) group_left () job:x:rate5m offset 5m > 0 and up * 1`
	if got, want := metricsOf(expr), []string{"stint_keys", "job:x:rate5m", "up"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// exported returns the names of the metrics that Stint exports, as documented, with those
// that Prometheus adds and those that the recording rules make. Other tests compare the
// documents with what the programs export.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"up": true, "process_start_time_seconds": true}
	for _, page := range []string{"metrics.md", "observability.md"} {
		for _, m := range documented.FindAllStringSubmatch(read(t, filepath.Join(top, "docs", page)), -1) {
			names[m[1]] = true
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				names[m[1]+suffix] = strings.HasSuffix(m[1], "_seconds")
			}
		}
	}
	// observability.md lists the parts of a client without the prefix.
	for _, m := range regexp.MustCompile("`(client_[a-z_]+)").FindAllStringSubmatch(read(t, filepath.Join(top, "docs/observability.md")), -1) {
		names["stint_"+m[1]] = true
	}
	for _, g := range rulesOf(t, "rules.yaml") {
		for _, r := range g.Rules {
			names[r.Record] = true
		}
	}
	return names
}

func TestExpressionsUseExportedNames(t *testing.T) {
	names := exported(t)
	check := func(where, expr string) {
		used := metricsOf(expr)
		if len(used) == 0 {
			t.Errorf("%s: no metric in %s", where, expr)
		}
		for _, name := range used {
			if !names[name] {
				t.Errorf("%s: %s is not in docs/metrics.md", where, name)
			}
		}
	}
	for _, file := range []string{"rules.yaml", "alerts.yaml"} {
		for _, g := range rulesOf(t, file) {
			for _, r := range g.Rules {
				check(r.Alert+r.Record, r.Expr)
			}
		}
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				check(d.Title+": "+p.Title, target.Expr)
			}
		}
		for _, a := range d.Annotations.List {
			check(d.Title+": annotation", a.Expr)
		}
	}
}
