package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/live"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/rule"
)

const (
	defaultRules = 100
	mostRules    = 1000
)

// rulesBody is a page of the rules in force.
type rulesBody struct {
	Version uint64     `json:"version"`
	Total   int        `json:"total"` // number of rules in force
	Found   int        `json:"found"` // number of rules that the search finds
	Rules   []ruleBody `json:"rules"`
}

// ruleBody is one rule in words.
type ruleBody struct {
	ID        string      `json:"id"`
	Position  int         `json:"position"` // from 1, in the order of the files
	Mode      string      `json:"mode"`
	When      []wanted    `json:"when"` // empty: every request
	By        []string    `json:"by"`
	Limits    []wordsBody `json:"limits"`
	Overrides int         `json:"overrides,omitempty"`
	// Rates are requests a second, of this node over about the last minute.
	Rates *live.Rates `json:"rates,omitempty"`
	// Changed is when the text of the rule has changed last; nil: it is not known.
	Changed *lastChange `json:"changed,omitempty"`

	text string // what a search looks in, in lower case
}

type wanted struct {
	Name string `json:"name"`
	Want string `json:"want"`
}

type wordsBody struct {
	Tier  string `json:"tier,omitempty"`
	Limit string `json:"limit"` // short, such as 500/m
	Words string `json:"words"`
}

// ruleOrders are the values of sort.
var ruleOrders = map[string]func(a, b *ruleBody) int{
	"position": func(a, b *ruleBody) int { return cmp.Compare(a.Position, b.Position) },
	"id":       func(a, b *ruleBody) int { return strings.Compare(a.ID, b.ID) },
	"requests": func(a, b *ruleBody) int { return cmp.Compare(requests(b), requests(a)) },
	"denied":   func(a, b *ruleBody) int { return cmp.Compare(b.Rates.Denied, a.Rates.Denied) },
	"share":    func(a, b *ruleBody) int { return cmp.Compare(deniedShare(b), deniedShare(a)) },
	"shadow":   func(a, b *ruleBody) int { return cmp.Compare(b.Rates.Shadow, a.Rates.Shadow) },
	"mode":     func(a, b *ruleBody) int { return strings.Compare(a.Mode, b.Mode) },
	"changed":  func(a, b *ruleBody) int { return cmp.Compare(newestChange(b), newestChange(a)) },
}

func requests(b *ruleBody) float64 {
	return b.Rates.Allowed + b.Rates.Denied + b.Rates.Shadow + b.Rates.Degraded
}

func deniedShare(b *ruleBody) float64 {
	if all := requests(b); all > 0 {
		return b.Rates.Denied / all
	}
	return 0
}

// newestChange returns the version that changed a rule last, or 0 if it is not known.
func newestChange(b *ruleBody) uint64 {
	if b.Changed == nil {
		return 0
	}
	return b.Changed.Version
}

// ruleList answers GET /v1/rules?q=…&sort=denied&limit=100&offset=0 with the rules in force, in
// words and with their rates.
func (a *API) ruleList(r *request) (any, error) {
	query := r.URL.Query()
	sort := cmp.Or(query.Get("sort"), "position")
	order := ruleOrders[sort]
	if order == nil {
		return nil, badRequest("sort: %.40q is not known (use position, id, mode, requests, denied, share, shadow or changed)", sort)
	}
	limit, err := r.number("limit", defaultRules, 1, mostRules)
	if err != nil {
		return nil, err
	}
	offset, err := r.number("offset", 0, 0, 1<<30)
	if err != nil {
		return nil, err
	}
	set, on := a.Rules.Current()
	all, err := a.inWords(r.Context(), set)
	if err != nil {
		return nil, err
	}
	found := make([]*ruleBody, 0, len(all))
	for i, q := 0, strings.ToLower(query.Get("q")); i < len(all); i++ {
		if id := query.Get("rule"); strings.Contains(all[i].text, q) && (id == "" || id == all[i].ID) {
			found = append(found, &all[i])
		}
	}
	body := rulesBody{Version: on.Number, Total: len(all), Found: len(found)}
	switch sort {
	case "position", "id", "mode":
	default:
		found = a.withRates(found)
	}
	versions, _ := a.compared(r.Context())
	if sort == "changed" {
		if err := r.Context().Err(); err != nil { // the versions may be missing
			return nil, err
		}
		for _, one := range found {
			one.Changed = lastChangeOf(one.ID, versions)
		}
	}
	if sort != "position" {
		slices.SortStableFunc(found, order)
	}
	first := min(int(offset), len(found))
	body.Rules = []ruleBody{}
	for _, one := range a.withRates(found[first:min(first+int(limit), len(found))]) {
		one.Changed = lastChangeOf(one.ID, versions)
		body.Rules = append(body.Rules, *one)
	}
	return body, nil
}

// withRates returns copies of the rules with their rates now. The rules themselves are shared by
// all requests.
func (a *API) withRates(list []*ruleBody) []*ruleBody {
	if len(list) == 0 {
		return nil
	}
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = one.ID
	}
	rates := map[string]live.Rates{}
	if a.Live != nil {
		rates = a.Live.Rates(ids...)
	}
	out := make([]*ruleBody, len(list))
	for i, one := range list {
		filled, now := *one, rates[one.ID]
		filled.Rates = &now
		out[i] = &filled
	}
	return out
}

// rulesInWords are the rules of one set, made once.
type rulesInWords struct {
	mu   sync.Mutex
	of   *rule.Set  // guarded by mu
	list []ruleBody // guarded by mu
}

// inWords returns the rules of a set. It remembers those of the last set: a list of 10,000 rules
// is asked for each time that somebody types a letter of a search.
func (a *API) inWords(ctx context.Context, set *rule.Set) ([]ruleBody, error) {
	if err := a.reading.take(ctx); err != nil {
		return nil, err
	}
	defer a.reading.end()
	a.words.mu.Lock()
	defer a.words.mu.Unlock()
	if a.words.of == set {
		return a.words.list, nil
	}
	list := make([]ruleBody, 0, len(set.Rules()))
	for i, w := range ruleedit.InWords(set) {
		one := ruleBody{ID: w.Rule, Position: i + 1, Mode: w.Mode, When: []wanted{}, By: append([]string{}, w.By...), Limits: []wordsBody{}, Overrides: w.Overrides}
		text := []string{w.Rule, w.Mode, strings.Join(w.By, " ")}
		for _, c := range w.When {
			one.When = append(one.When, wanted{c.Name, c.Want})
			text = append(text, c.Name, c.Want)
		}
		for n, l := range w.Limits {
			one.Limits = append(one.Limits, wordsBody{l.Tier, l.Is, w.Sentences[n]})
			text = append(text, l.Tier, w.Sentences[n])
		}
		one.text = strings.ToLower(strings.Join(text, "\n"))
		list = append(list, one)
	}
	a.words.of, a.words.list = set, list
	return list, nil
}

// explainBody says what the rules in force do with a request.
type explainBody struct {
	ruleedit.Explained

	// Unread are the attributes of the request that no rule reads.
	Unread []string `json:"unread,omitempty"`
}

// explain answers POST /v1/explain {"attributes":{…}} with what each rule in force does with the
// request, and why. It reads no counts.
func (a *API) explain(r *request) (any, error) {
	var attributes rule.Map
	cost := int64(1)
	err := r.decode(fields{
		"attributes": func(raw json.RawMessage) (err error) { attributes, err = readAttributes(raw); return err },
		"cost":       wholeField(&cost, 0, stint.MaxCost),
	})
	if err == nil && attributes == nil {
		err = badRequest(`attributes: are missing (give those of a request, such as {"api_key":"alice","path":"/orders"})`)
	}
	if err != nil {
		return nil, err
	}
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	set, _ := a.Rules.Current()
	e, err := set.Explain(attributes, cost)
	if _, coded := errors.AsType[*stint.Error](err); err != nil && !coded {
		err = badRequest("%v", err)
	}
	if err != nil {
		return nil, err
	}
	body := explainBody{Explained: ruleedit.ExplainedOf(e, set)}
	for name := range attributes {
		if !slices.Contains(set.Attributes(), name) {
			body.Unread = append(body.Unread, name)
		}
	}
	slices.Sort(body.Unread)
	return body, nil
}
