package adminapi

import (
	"fmt"
	"strconv"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

type historyBody struct {
	Current  uint64        `json:"current"` // the version that this node runs
	Versions []versionBody `json:"versions"`
}

// history answers GET /rules/history?n=50 with versions, the newest first. With ?rule=orders they
// are those that changed the rule.
func (a *API) history(r *request) (any, error) {
	n, err := r.number("n", 50, 1, 1000)
	if err != nil {
		return nil, err
	}
	if id := r.URL.Query().Get("rule"); id != "" {
		return a.ruleHistory(r, id, int(n))
	}
	listed, err := a.Rules.History(r.Context(), int(n))
	if err != nil {
		return nil, err
	}
	_, now := a.Rules.Current()
	body := historyBody{Current: now.Number, Versions: []versionBody{}}
	for _, v := range listed {
		body.Versions = append(body.Versions, versionOf(v))
	}
	return body, nil
}

// version answers GET /rules/versions/{version}. Version 0 is the built-in rules. A version with
// a canary is shown with the rules that it tries.
func (a *API) version(r *request) (any, error) {
	n, err := strconv.ParseUint(r.PathValue("version"), 10, 64)
	if err != nil {
		return nil, badRequest("version: %.40q is not a number", r.PathValue("version"))
	}
	v, err := a.Rules.Get(r.Context(), n)
	if err != nil {
		return nil, err
	}
	return showVersion(r, v.Tried())
}

// rollback answers POST /rules/rollback {"version":3}. It publishes an old set as
// a new version. "samples" are those of [API.withSamples].
func (a *API) rollback(r *request) (any, error) {
	number, sealed := int64(-1), [][]byte(nil)
	data, err := r.body()
	if err == nil {
		err = decode(data, fields{"version": wholeField(&number, 0, ruleset.MaxNumber), "samples": samplesField(&sealed)})
	}
	if err != nil {
		return nil, err
	}
	if number < 0 {
		return nil, badRequest(`version: is missing (name one, such as {"version":3})`)
	}
	old, err := a.Rules.Get(r.Context(), uint64(number))
	if err != nil {
		return nil, err
	}
	others, err := a.openSamples(sealed)
	if err != nil {
		return nil, err
	}
	old = old.Tried()
	return a.change(r, edit{what: fmt.Sprintf("roll back to version %d", old.Number), whole: true, others: others, tag: setTag, make: func([]rule.File) ([]rule.File, *rule.Set, error) {
		set, err := rule.Parse(old.Files...)
		return old.Files, set, err
	}})
}

type nodesBody struct {
	Nodes []ruleset.Node `json:"nodes"`
}

// nodes answers GET /nodes with the version that each node runs. GET /nodes?self answers with this
// node alone, so it needs no source of the rules.
func (a *API) nodes(r *request) (any, error) {
	self, err := r.flag("self")
	if err != nil {
		return nil, err
	}
	if self {
		return nodesBody{[]ruleset.Node{a.Rules.Self()}}, nil
	}
	nodes, err := a.Rules.Nodes(r.Context())
	return nodesBody{nodes}, err
}
