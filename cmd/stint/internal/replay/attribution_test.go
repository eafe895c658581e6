package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/oracle"
	"github.com/stintdev/stint/rule"
)

// naiveRule is a rule as the naive model has it.
type naiveRule struct {
	id, path, by string // path: the only one that matches; empty: all
	shadow, any  bool
	denyAll      bool
	deny         string // the address on its own deny list
	limits       []stint.Limit
	texts        []string
}

// yaml returns the rule as a file has it.
func (r *naiveRule) yaml() string {
	text := fmt.Sprintf("- {id: %s, by: [%s]", r.id, r.by)
	if r.path != "" {
		text += ", match: {path: " + r.path + "}"
	}
	if r.shadow {
		text += ", mode: shadow"
	}
	if r.any {
		text += ", combine: any"
	}
	if r.deny != "" {
		text += ", deny: [" + r.deny + "]"
	}
	if r.denyAll {
		return text + ", deny_all: true}\n"
	}
	return text + ", limits: [" + strings.Join(r.texts, ", ") + "]}\n"
}

func drawRules(t *rapid.T) (rules []naiveRule) {
	for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
		r := naiveRule{id: fmt.Sprintf("r%d", i)}
		r.path = rapid.SampledFrom([]string{"", "", "/a", "/b"}).Draw(t, "path")
		r.by = rapid.SampledFrom([]string{"ip", "api_key", "method"}).Draw(t, "by")
		r.shadow = rapid.IntRange(0, 3).Draw(t, "shadow") == 0
		r.denyAll = rapid.IntRange(0, 9).Draw(t, "deny all") == 0
		if rapid.IntRange(0, 7).Draw(t, "own list") == 0 {
			r.deny = "192.0.2.1"
		}
		for n := range rapid.IntRange(1, 2).Draw(t, "limits") {
			text := fmt.Sprintf(`{"name":"l%d","algorithm":"%s","limit":%d,"window":"%ds"}`, n,
				rapid.SampledFrom([]string{"token_bucket", "fixed_window", "sliding_window_log"}).Draw(t, "algorithm"),
				rapid.IntRange(1, 4).Draw(t, "limit"), rapid.IntRange(1, 5).Draw(t, "window"))
			r.texts, r.limits = append(r.texts, text), append(r.limits, compiled(t, text))
		}
		r.any = !r.denyAll && len(r.texts) == 2 && rapid.Bool().Draw(t, "any")
		rules = append(rules, r)
	}
	return rules
}

// naiveEvent is an event of the model.
type naiveEvent struct {
	T      int64  `json:"t_us"`
	IP     string `json:"ip"`
	APIKey string `json:"api_key"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

func (e *naiveEvent) key(by string) string {
	return map[string]string{"ip": e.IP, "api_key": e.APIKey, "method": e.Method}[by]
}

// naiveWorld decides by some of the rules, or by one limit of a rule: the model of a replay
// with a subset of the rules.
type naiveWorld struct {
	rules []naiveRule
	only  int // the limit that counts; -1: all
	model *oracle.Model
}

// naiveVerdict is what one rule says of an event.
type naiveVerdict struct {
	rule   string
	shadow bool
	denies bool
	limits []int // those that deny, as numbers
	final  bool  // it denies without counting
}

// decide returns the verdicts of the rules that match, and whether a deny list denies.
func (w *naiveWorld) decide(e *naiveEvent) (verdicts []naiveVerdict, listed bool) {
	var matching []naiveRule
	for _, r := range w.rules {
		if r.path != "" && r.path != e.Path {
			continue
		}
		if !r.shadow && r.deny == e.IP {
			return nil, true
		}
		matching = append(matching, r)
	}
	closed := slices.ContainsFunc(matching, func(r naiveRule) bool { return r.denyAll && !r.shadow })
	admitted := !closed
	for _, shadow := range []bool{false, true} {
		group, all := []naiveVerdict{}, []naiveRule{}
		for _, r := range matching {
			if r.shadow != shadow || closed && !r.denyAll {
				continue
			}
			group, all = append(group, w.verdict(&r, e)), append(all, r)
		}
		for _, v := range group {
			admitted = admitted && (shadow || !v.denies)
		}
		verdicts = append(verdicts, group...)
		for i, v := range group {
			if admitted && !v.final && !v.denies {
				w.charge(&all[i], e, v.limits)
			}
		}
	}
	return verdicts, false
}

func (w *naiveWorld) verdict(r *naiveRule, e *naiveEvent) naiveVerdict {
	v := naiveVerdict{rule: r.id, shadow: r.shadow}
	if r.denyAll {
		v.denies, v.final, v.limits = true, true, []int{0}
		return v
	}
	counted := 0
	for n := range r.limits {
		if w.only >= 0 && n != w.only {
			continue
		}
		counted++
		if !w.step(r, e, n, true) {
			v.limits = append(v.limits, n)
		}
	}
	v.denies = len(v.limits) > 0
	if r.any {
		v.denies = len(v.limits) == counted
	}
	return v
}

// charge charges the limits that admit.
func (w *naiveWorld) charge(r *naiveRule, e *naiveEvent, full []int) {
	for n := range r.limits {
		if (w.only < 0 || n == w.only) && !slices.Contains(full, n) {
			w.step(r, e, n, false)
		}
	}
}

// step reports whether a limit admits the event, and charges it unless dry.
func (w *naiveWorld) step(r *naiveRule, e *naiveEvent, n int, dry bool) bool {
	c := stint.Claim{Key: fmt.Sprint(r.id, n, e.key(r.by)), Limit: r.limits[n], Cost: 1}
	if dry {
		c.Cost = 0
		return w.model.Take(e.T, c).Remaining >= 1
	}
	return w.model.Take(e.T, c).Allowed
}

func drawEvents(t *rapid.T) (events []naiveEvent) {
	at := int64(1_431_907_190_000_000)
	for range rapid.IntRange(1, 60).Draw(t, "events") {
		at += rapid.Int64Range(0, 1_500_000).Draw(t, "step")
		events = append(events, naiveEvent{
			T: at, IP: rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2"}).Draw(t, "ip"), APIKey: rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(t, "key"),
			Method: rapid.SampledFrom([]string{"GET", "PUT"}).Draw(t, "method"), Path: rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "path"),
		})
	}
	return events
}

// naiveCounts are the counts of the model, by rule and by rule and limit ("r0.1").
func naiveCounts(rules []naiveRule, events []naiveEvent) (counts map[string]*Attribution, listed int64) {
	counts = map[string]*Attribution{}
	for _, r := range rules {
		counts[r.id] = &Attribution{Alone: naiveAlone(r, -1, events)}
		for n := range r.limits {
			counts[fmt.Sprint(r.id, ".", n)] = &Attribution{Alone: naiveAlone(r, n, events)}
		}
	}
	w := naiveWorld{rules, -1, oracle.New()}
	for i := range events {
		verdicts, onList := w.decide(&events[i])
		if onList {
			listed++
		}
		denying, limits := 0, 0
		for _, v := range verdicts {
			if v.denies && !v.shadow {
				denying, limits = denying+1, limits+len(v.limits)
			}
		}
		for _, v := range verdicts {
			if !v.denies {
				continue
			}
			naiveShare(counts[v.rule], v.shadow, denying)
			for _, n := range v.limits {
				naiveShare(counts[fmt.Sprint(v.rule, ".", n)], v.shadow, limits)
			}
		}
	}
	return counts, listed
}

func naiveShare(a *Attribution, shadow bool, denying int) {
	others := denying
	if !shadow {
		others--
	}
	if others > 0 {
		a.Also++
	} else {
		a.Sole++
	}
}

// naiveAlone returns what a rule, or one limit of it, denies in a world without others.
func naiveAlone(r naiveRule, only int, events []naiveEvent) (denied int64) {
	w := naiveWorld{[]naiveRule{r}, only, oracle.New()}
	for i := range events {
		if verdicts, _ := w.decide(&events[i]); len(verdicts) > 0 && verdicts[0].denies {
			denied++
		}
	}
	return denied
}

// The attribution equals that of a naive model, which decides by every subset of one rule and of
// one limit separately, and the answers in the decision lines.
func TestAttributionEqualsTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, events := drawRules(t), drawEvents(t)
		text := "rules:\n"
		for i := range rules {
			text += rules[i].yaml()
		}
		lines, report := attributed(t, text, events)
		want, listed := naiveCounts(rules, events)
		binding, total := map[string]int64{}, listed
		for _, d := range readDecided(t, lines) {
			if !d.Allowed {
				binding[d.Rule]++
			}
		}
		for _, c := range report.PerRule {
			w := want[c.Rule]
			w.Binding = binding[c.Rule]
			total += c.Binding
			if c.Attribution != *w || c.Denied != c.Sole+c.Also || c.Events != c.Allowed+c.Denied {
				t.Fatalf("%s has %+v, want %+v, under\n%s%v", c.Rule, c, *w, text, events)
			}
			var ofLimits int64
			for n, l := range c.Limits {
				w := want[fmt.Sprint(c.Rule, ".", n)]
				ofLimits += l.Binding
				w.Binding = l.Binding
				if l.Attribution != *w {
					t.Fatalf("limit %d of %s has %+v, want %+v, under\n%s%v", n, c.Rule, l, *w, text, events)
				}
			}
			if len(c.Limits) > 0 && ofLimits != c.Binding {
				t.Fatalf("the limits of %s gave %d answers, and the rule %d", c.Rule, ofLimits, c.Binding)
			}
		}
		if total != report.Denied || report.DeniedByList != listed {
			t.Fatalf("%d denials, want %d; %d by lists, want %d", total, report.Denied, report.DeniedByList, listed)
		}
	})
}

func attributed(t *rapid.T, rules string, events []naiveEvent) ([]string, Report) {
	t.Helper()
	var text, out strings.Builder
	for i := range events {
		line, err := json.Marshal(&events[i])
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	set, err := rule.Parse(rule.File{Name: "rules.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatalf("%v\n%s", err, rules)
	}
	report, err := Run(t.Context(), Options{Rules: set, Alone: true, Decisions: &out}, inputsOf(text.String())...)
	if err != nil || report.Unreadable > 0 {
		t.Fatal(err, report.UnreadableLines)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), report
}

// A rule behind a stricter one gives no answer, and still denies by itself.
func TestARuleBehindAStricterOneIsSeen(t *testing.T) {
	set := ruleSet(t, `rules:
  - {id: bots, match: {headers: {user-agent: "*bot*"}}, by: [ip], limit: 10, window: 60, algorithm: fixed_window}
  - {id: by-ip, by: [ip], limit: 10, window: 3600, algorithm: fixed_window}
`)
	var events strings.Builder
	for i := range 19 {
		fmt.Fprintf(&events, `{"t_us":%d,"ip":"192.0.2.1","header:user-agent":"a bot"}`+"\n", i*1000)
	}
	_, s := replayed(t, Options{Rules: set, Alone: true}, inputsOf(events.String())...)
	if got, want := s.PerRule[0].Attribution, (Attribution{Also: 9, Alone: 9}); got != want {
		t.Errorf("bots has %+v, want %+v", got, want)
	}
	if got, want := s.PerRule[1].Attribution, (Attribution{Binding: 9, Also: 9, Alone: 9}); got != want {
		t.Errorf("by-ip has %+v, want %+v", got, want)
	}
}

// An interrupted replay reports the same events in all its counts.
func TestAnInterruptedReplayCountsEachEventAlone(t *testing.T) {
	var text strings.Builder
	for i := range 3 * progressEvery {
		fmt.Fprintf(&text, `{"t_us":%d,"ip":"192.0.2.%d","api_key":"k"}`+"\n", 1772521924000000+i, i%9)
	}
	ctx, stop := context.WithCancel(t.Context())
	o := Options{Alone: true, Rules: ruleSet(t, "rules: [{id: a, by: [ip], limit: 1, window: 86400}, {id: b, by: [api_key], limit: 1000000, window: 1}]")}
	o.Progress = func(Progress) { stop() }
	r, err := Run(ctx, o, inputsOf(text.String())...)
	if err == nil || r.Events == 0 || r.Denied == 0 {
		t.Fatalf("%v, %d events, %d denied", err, r.Events, r.Denied)
	}
	if a := r.PerRule[0]; a.Alone != a.Binding {
		t.Errorf("%d denied alone, %d in all", a.Alone, a.Binding)
	}
}
