package replayhtml

import (
	"cmp"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/replay"
)

// charts are the charts of a page, as the script reads them.
type charts struct {
	StartUS int64   `json:"start_us"`
	StepUS  int64   `json:"step_us"`
	Steps   int     `json:"steps"`
	Charts  []chart `json:"charts"`
	// LeftOut is the number of rules that have no chart.
	LeftOut int `json:"-"`
}

// chart is one chart: lines over the same steps of time.
type chart struct {
	Title string `json:"-"`
	Lines []line `json:"lines"`
	start int64
	step  int64
}

// line is a line of a chart. Its kind selects the colour, and the name is its legend.
type line struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"` // allowed, denied or after
	Counts []int64 `json:"counts"`
}

// mostCharts is the number of rules that have a chart: those with the most denials.
const mostCharts = 24

func chartsOf(r *replay.Report) charts {
	c := charts{StartUS: r.OverTime.StartUS, StepUS: r.OverTime.StepUS, Steps: len(r.OverTime.Events)}
	if c.Steps == 0 {
		return c
	}
	c.add("All requests", allowedAndDenied(r.OverTime.Events, r.OverTime.Denied))
	if r.Compare != nil {
		c.compare(r)
	}
	rules := r.PerRule
	if len(rules) == 1 && rules[0].Rule == "" { // a limit, whose counts are those of all requests
		rules = nil
	}
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b replay.RuleCount) int { return cmp.Compare(b.Denied, a.Denied) })
	c.LeftOut = max(0, len(rules)-mostCharts)
	for i := range rules[:len(rules)-c.LeftOut] {
		title := "Rule " + rules[i].Rule
		if rules[i].Mode != "enforce" {
			title += " (mode " + rules[i].Mode + ": what it would have done)"
		}
		c.add(title, allowedAndDenied(rules[i].EventsOverTime, rules[i].DeniedOverTime))
	}
	return c
}

// compare adds the charts of a comparison.
func (c *charts) compare(r *replay.Report) {
	with := r.Compare
	c.add("Denied before and after", []line{{"denied before", "denied", r.OverTime.Denied}, {"denied after", "after", with.DeniedOverTime}})
	c.add("Requests that are decided differently", []line{{"newly denied", "denied", with.NewlyDeniedOverTime}, {"newly allowed", "allowed", with.NewlyAllowedOverTime}})
	changed := slices.DeleteFunc(slices.Clone(with.PerRule), func(one replay.RuleChange) bool {
		return slices.Equal(one.BeforeOverTime, one.AfterOverTime)
	})
	slices.SortStableFunc(changed, func(a, b replay.RuleChange) int {
		return cmp.Compare(b.NewlyDenied+b.NewlyAllowed, a.NewlyDenied+a.NewlyAllowed)
	})
	for _, one := range changed[:min(len(changed), mostCharts)] {
		title := "Denied by the deny lists, before and after"
		if one.Rule != "" {
			title = "Denied by rule " + one.Rule + ", before and after"
		}
		c.add(title, []line{{"before", "denied", one.BeforeOverTime}, {"after", "after", one.AfterOverTime}})
	}
}

func (c *charts) add(title string, lines []line) {
	c.Charts = append(c.Charts, chart{title, lines, c.StartUS, c.StepUS})
}

func allowedAndDenied(events, denied []int64) []line {
	allowed := make([]int64, len(events))
	for i := range events {
		allowed[i] = events[i] - denied[i]
	}
	return []line{{"allowed", "allowed", allowed}, {"denied", "denied", denied}}
}

// row is a row of the table of a chart.
type row struct {
	Time   string
	Counts []int64
}

// mostRows is the number of rows in the table of a chart.
const mostRows = 24

// Step returns how much time a row of the table has.
func (c *chart) Step() string {
	return replay.StepText(time.Duration(c.joined()) * time.Duration(c.step) * time.Microsecond)
}

// joined returns how many steps a row of the table has.
func (c *chart) joined() int64 { return int64((len(c.Lines[0].Counts) + mostRows - 1) / mostRows) }

// Rows returns the chart as a table.
func (c *chart) Rows() (rows []row) {
	joined := c.joined()
	for i := range c.Lines[0].Counts {
		if int64(i)%joined == 0 {
			rows = append(rows, row{replay.TimeText(c.start + int64(i)*c.step), make([]int64, len(c.Lines))})
		}
		for l := range c.Lines {
			rows[len(rows)-1].Counts[l] += c.Lines[l].Counts[i]
		}
	}
	return rows
}
