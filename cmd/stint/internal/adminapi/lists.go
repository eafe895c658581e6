package adminapi

import (
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
)

type listsBody struct {
	Entries []listed `json:"entries"`
}

// listed is an entry of a list.
type listed struct {
	ruleedit.ListEntry

	Ended bool `json:"ended,omitempty"`
}

// lists answers GET /lists.
func (a *API) lists(r *request) (any, error) { return a.listEntries(r) }

// listEntries returns every entry of every list, expired ones included.
func (a *API) listEntries(r *request) (listsBody, error) {
	if err := a.reading.take(r.Context()); err != nil {
		return listsBody{}, err
	}
	defer a.reading.end()
	_, now := a.Rules.Current()
	entries, err := ruleedit.ListEntries(now.Files)
	body := listsBody{Entries: []listed{}}
	for _, e := range entries {
		body.Entries = append(body.Entries, listed{e, !e.Until.IsZero() && !e.Until.After(a.now())})
	}
	return body, err
}

// putEntry answers PUT /lists/{list}/{match}?rule=… and PUT /lists/{list}/?match=…: it adds
// an entry, temporary or permanent.
func (a *API) putEntry(r *request) (any, error) {
	entry, err := r.entry()
	if err != nil {
		return nil, err
	}
	data, err := r.bodyUpTo(maxObject)
	if err == nil && len(data) > 0 {
		err = decode(data, fields{
			"until": a.untilField(&entry.Until), "for": a.forField(&entry.Until), "reason": textField(&entry.Reason),
		})
	}
	if err != nil {
		return nil, err
	}
	return a.changeEntry(r, "put", entry, ruleedit.PutEntry(entry))
}

// deleteEntry answers DELETE /lists/{list}/{match}?rule=… and DELETE /lists/{list}/?match=….
func (a *API) deleteEntry(r *request) (any, error) {
	entry, err := r.entry()
	if err != nil {
		return nil, err
	}
	return a.changeEntry(r, "delete", entry, ruleedit.DeleteEntry(entry))
}

// entry returns the list entry that the URL names.
func (r *request) entry() (ruleedit.ListEntry, error) {
	match, err := r.pathOrQuery("match")
	entry := ruleedit.ListEntry{Match: match, Rule: r.URL.Query().Get("rule")}
	if err != nil {
		return entry, err
	}
	switch list := r.PathValue("list"); list {
	case "deny", "blacklist":
		entry.Deny = true
	case "allow", "whitelist":
	default:
		return entry, notFound("list: %.40q is not a list (use allow or deny)", list)
	}
	return entry, nil
}

func (a *API) changeEntry(r *request, verb string, entry ruleedit.ListEntry, e ruleedit.Edit) (any, error) {
	if err := checkWhy("reason", entry.Reason); err != nil {
		return nil, err
	}
	r.key = entry.Match
	list := "allow"
	if entry.Deny {
		list = "deny"
	}
	what := verb + " " + short(entry.Match) + " on the " + list + " list"
	if entry.Rule != "" {
		what += " of rule " + entry.Rule
	}
	if !entry.Until.IsZero() {
		what += " until " + entry.Until.UTC().Format(time.RFC3339)
	}
	return a.apply(r, what, entry.Reason, setTag, e)
}

// ban answers POST /v1/ban {"key":…,"for":"1h","reason":…}. It adds an entry to
// the deny list.
func (a *API) ban(r *request) (any, error) {
	entry := ruleedit.ListEntry{Deny: true}
	err := r.decode(fields{
		"key": textField(&entry.Match), "rule": textField(&entry.Rule), "reason": textField(&entry.Reason),
		"until": a.untilField(&entry.Until), "for": a.forField(&entry.Until),
	})
	if err != nil {
		return nil, err
	}
	if entry.Match == "" {
		return nil, badRequest("key: is missing (give an API key, a pattern, an address or a network)")
	}
	return a.changeEntry(r, "put", entry, ruleedit.PutEntry(entry))
}

// unban answers POST /v1/unban {"key":…}. It removes the entry from the deny list
// and ends the key's penalties.
func (a *API) unban(r *request) (any, error) {
	entry := ruleedit.ListEntry{Deny: true}
	if err := r.decode(fields{"key": textField(&entry.Match), "rule": textField(&entry.Rule)}); err != nil {
		return nil, err
	}
	if entry.Match == "" {
		return nil, badRequest("key: is missing (give an API key, a pattern, an address or a network)")
	}
	answer, err := a.changeEntry(r, "delete", entry, ruleedit.DeleteEntry(entry))
	return a.forgiven(r, entry, answer, err)
}

// putOverride answers PUT /rules/{id}/override/{key}?for=1h and PUT
// /rules/{id}/override/?key=…&for=1h.
func (a *API) putOverride(r *request) (any, error) {
	id := r.PathValue("id")
	key, err := r.pathOrQuery("key")
	if err != nil {
		return nil, err
	}
	r.key = key
	var until time.Time
	if text := r.URL.Query().Get("for"); text != "" {
		if err := a.endAfter(text, &until); err != nil {
			return nil, badRequest("for: %v", err)
		}
	}
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	return a.apply(r, "put override of "+short(key)+" in rule "+id, "", ruleTag(id), ruleedit.PutOverride(id, key, body, until))
}

// deleteOverride answers DELETE /rules/{id}/override/{key}?temporary=true and DELETE
// /rules/{id}/override/?key=…&temporary=true.
func (a *API) deleteOverride(r *request) (any, error) {
	id := r.PathValue("id")
	key, err := r.pathOrQuery("key")
	if err != nil {
		return nil, err
	}
	r.key = key
	temporary, err := r.flag("temporary")
	if err != nil {
		return nil, err
	}
	return a.apply(r, "delete override of "+short(key)+" in rule "+id, "", ruleTag(id), ruleedit.DeleteOverride(id, key, temporary))
}

// short returns the form of a key in answers and logs.
func short(key string) string { return impact.Shorten(key) }

func (r *request) decode(known fields) error {
	data, err := r.bodyUpTo(maxObject)
	if err != nil {
		return err
	}
	return decode(data, known)
}
