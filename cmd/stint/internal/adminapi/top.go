package adminapi

import (
	"slices"

	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

// Top counts keys. [topkeys.Sketch] implements it.
type Top interface {
	Top(w topkeys.Window, denied bool) topkeys.Top
}

const (
	defaultTop = 100
	maxTop     = 3000 // more than a sketch has
)

// top answers GET /v1/top?by=denied&rule=orders&window=1m with the keys that this node has
// denied or allowed most often, or would have denied but for shadow mode. Without a rule it covers
// all rules, and the limits that callers bring.
func (a *API) top(r *request) (any, error) {
	if a.Top == nil {
		return nil, notFound("this server counts no keys (ask a server that runs stint serve)")
	}
	query := r.URL.Query()
	by, window := query.Get("by"), topkeys.Minute
	if !slices.Contains([]string{"", "denied", "allowed", "shadow"}, by) {
		return nil, badRequest("by: %.40q is not known (use denied, allowed or shadow)", by)
	}
	switch text := query.Get("window"); text {
	case "", "1m":
	case "1h":
		window = topkeys.Hour
	default:
		return nil, badRequest("window: %.40q is not known (use 1m or 1h)", text)
	}
	limit, err := r.number("limit", defaultTop, 1, maxTop)
	if err != nil {
		return nil, err
	}
	var top topkeys.Top
	if by == "shadow" {
		top = a.Shadows.Top(window)
	} else {
		top = a.Top.Top(window, by != "allowed")
	}
	id := query.Get("rule")
	if top.Cut(id, int(limit)); len(top.Items) == 0 && !a.hasRule(id) {
		return nil, notFound("rule: there is no rule %.40q, and no key of it in this window (GET /rules shows the rules; leave it out for all)", id)
	}
	for i := range top.Items {
		item := &top.Items[i]
		if a.Denials != nil {
			item.Hash = a.Denials.HashID(item.ID)
		}
		if !r.who.role.allows(Admin) {
			item.ID = 0
		}
	}
	return top, nil
}

// hasRule reports whether the rules in force have the id. An empty one stands for all rules,
// and [topkeys.Takes] for the limits that callers bring.
func (a *API) hasRule(id string) bool {
	set, _ := a.Rules.Current()
	return id == "" || id == topkeys.Takes || slices.ContainsFunc(set.Rules(), func(one *rule.Rule) bool { return one.ID == id })
}
