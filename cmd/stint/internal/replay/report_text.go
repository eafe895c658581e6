package replay

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// WriteText writes the report for people, in lines of at most 80 characters where numbers are
// not very large.
func (s *Report) WriteText(out io.Writer) error {
	w := &textWriter{Writer: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	s.writeSummary(w)
	s.writeRules(w)
	s.writeOverTime(w)
	s.writeCallers(w)
	s.writeKeys(w)
	if s.Compare != nil {
		s.Compare.write(w, s)
	}
	return w.Flush()
}

// Summary returns the parts of the report that are tables of a name and a text: the totals, and
// what it says of a decision log and of retries. A row has its cells.
func (s *Report) Summary() (tables [][][]string) {
	var b strings.Builder
	s.writeSummary(&b)
	for table := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\n"), "\n\n") {
		var rows [][]string
		for row := range strings.SplitSeq(table, "\n") {
			rows = append(rows, strings.Split(row, "\t"))
		}
		tables = append(tables, rows)
	}
	return tables
}

// writeSummary writes rows whose cells are separated by tabs, and an empty line between tables.
func (s *Report) writeSummary(w io.Writer) {
	writeCutShort(w, s.CutShort)
	fmt.Fprintf(w, "events\t%d\n", s.Events)
	if s.Events > 0 {
		fmt.Fprintf(w, "time\t%s to %s\n", TimeText(s.FirstUS), TimeText(s.LastUS))
	}
	fmt.Fprintf(w, "keys\t%d\n", s.Keys)
	fmt.Fprintf(w, "allowed\t%d\ndenied\t%d\nshare denied\t%s\n", s.Allowed, s.Denied, ShareText(s.ShareDenied))
	fmt.Fprintf(w, "callers denied\t%d of %d\n", s.CallersDenied, s.Callers)
	fmt.Fprintf(w, "late\t%d\nunreadable\t%d\n", s.Late, s.Unreadable)
	if s.Outside > 0 {
		fmt.Fprintf(w, "outside\t%d\n", s.Outside)
	}
	if s.Missing > 0 {
		fmt.Fprintf(w, "missing\t%d\n", s.Missing)
	}
	s.DecisionLog.write(w)
	s.Retries.write(w)
}

// writeCutShort marks a report that covers only a part of the inputs.
func writeCutShort(w io.Writer, cutShort bool) {
	if cutShort {
		fmt.Fprint(w, "cut short\tthe replay ended early, and counts the events until then\n")
	}
}

// textWriter writes a text whose tables have columns of their own widths.
type textWriter struct{ *tabwriter.Writer }

func (w *textWriter) linef(format string, args ...any) {
	_, _ = fmt.Fprintf(w, format+"\n", args...) // Flush returns the error
}

// section begins a part of the report.
func (w *textWriter) sectionf(heading string, args ...any) {
	_ = w.Flush()
	w.linef("\n"+heading, args...)
}

// ShareText returns a share as a percentage.
func ShareText(of float64) string { return fmt.Sprintf("%.2f %%", 100*of) }

// TimeText returns a time in microseconds since the Unix epoch.
func TimeText(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }

// WaitText returns a time to wait, rounded for people.
func WaitText(us int64) string {
	if us < 0 {
		return "forever"
	}
	wait := time.Duration(us) * time.Microsecond
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if wait >= unit {
			return wait.Round(unit / 10).String()
		}
	}
	return wait.String()
}

// Plain returns text of the traffic as one line of at most width characters. Characters that
// do not print, or that could move the cursor or turn the direction of a text, become U+FFFD.
func Plain(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
	if utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:max(0, width-1)]) + "…"
	}
	return text
}

// writeRules writes the counts of the rules. It writes nothing when a limit is
// replayed, because its counts equal the totals.
func (s *Report) writeRules(w *textWriter) {
	if !s.hasRules() {
		return
	}
	w.sectionf("rule\tmode\tevents\tbinding\tsole\talso\talone")
	if s.DeniedByList > 0 {
		w.linef("(deny list)\t\t\t%d\t\t\t", s.DeniedByList)
	}
	for _, c := range s.PerRule {
		w.linef("%s\t%s\t%d\t%s", Plain(c.Rule, 28), c.Mode, c.Events, c.text(c.Mode))
		for _, l := range c.Limits {
			w.linef("  %s\t\t\t%s", Plain(rateText(l.Limit), 26), l.text(c.Mode))
		}
	}
	w.sectionf(`binding: it gave the answer to a denied request; these add up to the denied.
sole: it alone denied. also: others denied, too. alone: what it denies as the
only rule. A rule in shadow mode denies nothing: sole and also are what it would
have denied.`)
}

// rateText returns the name and the rate of the text of a limit.
func rateText(limit string) string {
	rate, _, _ := strings.Cut(limit, ",")
	return rate
}

func (s *Report) hasRules() bool {
	return slices.ContainsFunc(s.PerRule, func(c RuleCount) bool { return c.Rule != "" })
}

// text returns the counts as cells of a table.
func (a *Attribution) text(mode string) string {
	binding, alone := strconv.FormatInt(a.Binding, 10), strconv.FormatInt(a.Alone, 10)
	if mode != "enforce" {
		binding = "-"
	}
	if a.Alone < 0 {
		alone = "-"
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s", binding, a.Sole, a.Also, alone)
}

// writeOverTime writes the denials over time. It writes nothing without denials.
func (s *Report) writeOverTime(w *textWriter) {
	if s.Denied == 0 && !slices.ContainsFunc(s.PerRule, func(c RuleCount) bool { return c.Denied > 0 }) {
		return
	}
	lines := []sparkline{{"all", s.OverTime.Denied}}
	for _, c := range s.PerRule {
		if s.hasRules() && c.Denied > 0 {
			lines = append(lines, sparkline{c.Rule, c.DeniedOverTime})
		}
	}
	s.OverTime.write(w, "denied over time", lines)
}

// sparkline is a line of counts over time with its name.
type sparkline struct {
	name   string
	counts []int64
}

// sparkWidth is the greatest number of characters of a sparkline.
const sparkWidth = 48

var sparks = []rune("▁▂▃▄▅▆▇█")

// write writes lines of counts over time.
func (t *Series) write(w *textWriter, heading string, lines []sparkline) {
	joined := (len(t.Events) + sparkWidth - 1) / sparkWidth
	step := time.Duration(t.StepUS*int64(joined)) * time.Microsecond
	w.sectionf("%s, from %s, %s a character", heading, TimeText(t.StartUS), StepText(step))
	for _, l := range lines {
		counts := joinSteps(l.counts, joined)
		w.linef("%s\t%s\tpeak %d", Plain(l.name, 12), spark(counts), slices.Max(counts))
	}
}

// StepText returns a whole number of seconds or more without units that are zero.
func StepText(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d%unit.length == 0 {
			return fmt.Sprintf("%d %s", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// joinSteps adds up each n neighbours.
func joinSteps(counts []int64, n int) (joined []int64) {
	for group := range slices.Chunk(counts, n) {
		var sum int64
		for _, c := range group {
			sum += c
		}
		joined = append(joined, sum)
	}
	return joined
}

// spark draws counts. A dot is a count of zero.
func spark(counts []int64) string {
	most := slices.Max(counts)
	var b strings.Builder
	for _, c := range counts {
		if c == 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(sparks[(c*int64(len(sparks))-1)/most])
	}
	return b.String()
}

func (s *Report) writeCallers(w *textWriter) {
	if len(s.TopCallers) == 0 {
		return
	}
	w.sectionf("top callers denied\trequests\tdenied\tshare\tlongest wait")
	for i := range s.TopCallers {
		c := &s.TopCallers[i]
		w.linef("%s\t%d\t%d\t%s\t%s", Plain(c.Caller, 32), c.Requests, c.Denied, ShareText(c.ShareDenied), WaitText(c.LongestWaitUS))
	}
	w.sectionf("of their denied\tuser agent\tpath\tstatus")
	for i := range s.TopCallers {
		c := &s.TopCallers[i]
		w.linef("%s\t%s\t%s\t%s", Plain(c.Caller, 20), c.most(c.UserAgents, c.AgentsVary, agentText, 19), c.most(c.Paths, c.PathsVary, pathText, 15), c.most(c.Status, c.StatusVary, pathText, 4))
	}
}

// leastShare is the least share of a value that stands for a caller.
const leastShare = 0.1

// most returns the most frequent value with its share of the sampled requests.
func (c *Caller) most(values []Value, vary bool, short func(string, int) string, width int) string {
	if len(values) == 0 && !vary {
		return "-"
	}
	if vary || float64(values[0].Count)/float64(c.LookedAt) < leastShare {
		return "various"
	}
	of := float64(values[0].Count) / float64(c.LookedAt)
	return fmt.Sprintf("%s %.0f%%", short(values[0].Value, width), 100*of)
}

// agentText shortens a user agent. It leaves out the words with which nearly all begin.
func agentText(agent string, width int) string {
	for _, common := range []string{"Mozilla/5.0 ", "(", "compatible; "} {
		agent = strings.TrimPrefix(agent, common)
	}
	return Plain(agent, width)
}

// pathText shortens a path to its end, which tells more than its beginning.
func pathText(path string, width int) string {
	letters := []rune(Plain(path, mostValueText))
	if len(letters) <= width {
		return string(letters)
	}
	return "…" + string(letters[len(letters)-width+1:])
}

// writeKeys writes the keys with the most denials, unless they are the callers.
func (s *Report) writeKeys(w *textWriter) {
	if !s.KeysDiffer() {
		return
	}
	w.sectionf("top keys denied\ttimes")
	for _, k := range s.TopKeysDenied {
		w.linef("%s\t%d", Plain(k.Key, 60), k.Denied)
	}
}

// KeysDiffer reports whether a key with the most denials is not one of the callers listed.
func (s *Report) KeysDiffer() bool {
	callers := map[string]bool{}
	for _, c := range s.TopCallers {
		callers[c.Caller] = true
	}
	return slices.ContainsFunc(s.TopKeysDenied, func(k KeyCount) bool { return !callers[k.Key] })
}

// write writes the comparison.
func (c *Comparison) write(w *textWriter, before *Report) {
	w.sectionf("compared with %s", Plain(c.With, 60))
	w.linef("\tbefore\tafter")
	w.linef("denied\t%d\t%d", before.Denied, c.Denied)
	w.linef("share denied\t%s\t%s", ShareText(before.ShareDenied), ShareText(c.ShareDenied))
	_ = w.Flush()
	w.linef("newly denied\t%d (callers: %d)", c.NewlyDenied, c.CallersNewlyDenied)
	w.linef("newly allowed\t%d (callers: %d)", c.NewlyAllowed, c.CallersNewlyAllowed)
	if c.Invalid > 0 {
		w.linef("not decided after\t%d, whose attributes are invalid", c.Invalid)
	}
	if c.NewlyDenied+c.NewlyAllowed == 0 {
		return
	}
	w.sectionf("rule\tdenied before\tafter\tnewly denied\tnewly allowed")
	for _, r := range c.PerRule {
		name := "(deny list)"
		if r.Rule != "" {
			name = Plain(r.Rule, 24)
		}
		w.linef("%s\t%d\t%d\t%d\t%d", name, r.Before, r.After, r.NewlyDenied, r.NewlyAllowed)
	}
	before.OverTime.write(w, "changes over time", []sparkline{{"new denials", c.NewlyDeniedOverTime}, {"new allowed", c.NewlyAllowedOverTime}})
	writeChanges(w, "callers newly denied", c.TopNewlyDenied)
	writeChanges(w, "callers newly allowed", c.TopNewlyAllowed)
}

func writeChanges(w *textWriter, heading string, callers []CallerChange) {
	if len(callers) == 0 {
		return
	}
	w.sectionf("%s\trequests\ttimes", heading)
	for _, c := range callers {
		w.linef("%s\t%d\t%d", Plain(c.Caller, 40), c.Requests, c.Changed)
	}
}
