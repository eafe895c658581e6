package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
)

// Emergency is the switch of the emergency. A [emergency.Switch] implements it, apart from
// CheckBy.
type Emergency interface {
	// CheckBy returns an error for an attribute that no request of the server has.
	CheckBy(by string) error
	Status() emergency.Status
	Set(ctx context.Context, c emergency.Change) (was emergency.State, is emergency.Status, err error)
}

// emergencyBody is the state of the emergency.
type emergencyBody struct {
	On bool `json:"on"`
	*emergencyState

	// Shared reports that every node of the source of the rules has this state. False: this
	// node has been switched alone, or nodes share no source that could carry the switch.
	// Shareable reports that there is such a source.
	Shared    bool `json:"shared"`
	Shareable bool `json:"shareable"`
	// SourceError is set while the source of the rules does not answer, so that a switching
	// reaches this node alone.
	SourceError string `json:"source_error,omitempty"`
	// Replaced is what was in force before a change.
	Replaced *emergencyState `json:"replaced,omitempty"`
	// Nodes are the nodes of the source, and whether they obey this state.
	Nodes []emergencyNode `json:"nodes"`
}

// emergencyState is an emergency that is on.
type emergencyState struct {
	Revision string    `json:"revision"`
	Limit    string    `json:"limit"`
	By       string    `json:"by"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Author   string    `json:"author"`
	Reason   string    `json:"reason,omitempty"`
}

type emergencyNode struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Obeys   bool   `json:"obeys"`
}

func stateBody(s *emergency.State) *emergencyState {
	if s.Revision == "" {
		return nil
	}
	return &emergencyState{s.Revision, s.Limit, s.By, s.Since.UTC(), s.Until.UTC(), s.Author, s.Reason}
}

// emergencyStatus answers GET /v1/emergency.
func (a *API) emergencyStatus(r *request) (any, error) {
	if a.Emergency == nil {
		return nil, errNoEmergency
	}
	s := a.Emergency.Status()
	return a.emergencyAnswer(r, &s), nil
}

// putEmergency answers PUT /v1/emergency {"limit":"10/s","by":"ip","for":"10m","reason":…}.
func (a *API) putEmergency(r *request) (any, error) {
	c, hasFor := emergency.Change{On: true}, false
	err := r.decode(fields{
		"limit": textField(&c.Limit), "by": textField(&c.By), "reason": textField(&c.Reason),
		"for": parsedField(func(text string) (err error) { c.For, err = span(text); hasFor = true; return err }),
	})
	if err != nil {
		return nil, err
	}
	if a.Emergency == nil {
		return nil, errNoEmergency
	}
	if _, err := emergency.ParseLimit(c.Limit); err != nil {
		return nil, badRequest("%v", err)
	}
	if err := a.Emergency.CheckBy(c.By); err != nil {
		return nil, badRequest("%v", err)
	}
	if !hasFor {
		return nil, badRequest("for: is missing (give a duration from 1s to 24h, such as 10m)")
	}
	if err := emergency.CheckDuration(c.For); err != nil {
		return nil, badRequest("%v", err)
	}
	return a.switchEmergency(r, "emergency on: "+c.Limit+" by "+c.By+" for "+c.For.String(), c)
}

// deleteEmergency answers DELETE /v1/emergency.
func (a *API) deleteEmergency(r *request) (any, error) {
	if a.Emergency == nil {
		return nil, errNoEmergency
	}
	return a.switchEmergency(r, "emergency off", emergency.Change{})
}

// errNoEmergency answers commands that work on a source of rules without a server.
var errNoEmergency = &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: "emergency: needs a running server (give --server its --admin listener)"}

func (a *API) switchEmergency(r *request, what string, c emergency.Change) (any, error) {
	o, err := r.options()
	if err == nil && (o.dryRun || o.force || o.impact != "") {
		err = badRequest("dry_run, force and impact: are for changes of the rules (leave them out)")
	}
	if c.Reason == "" {
		c.Reason = o.comment
	}
	if err == nil {
		err = checkWhy("reason", c.Reason)
	}
	c.Author = r.who.name
	if err == nil && (o.match != nil || o.none != nil) {
		c.After = a.Emergency.Status().Revision
		c.IfOff = c.After == ""
		if tag := emergencyTag(c.After); !o.matches(tag) || among(o.none, tag) {
			err = emergency.ErrChanged
		}
	}
	var was emergency.State
	var is emergency.Status
	if err == nil {
		was, is, err = a.Emergency.Set(r.Context(), c)
	}
	if err == nil && (is.Revision != "") != c.On {
		err = errors.New("the emergency cannot be put in force on this node (its log has the cause)")
	}
	err = emergencyError(err)
	e := a.entry(r, what, c.Reason)
	switch {
	case err != nil:
		e.Result = asError(err).Code
	case is.Shareable && is.SourceErr != nil:
		e.Result = "done on this node only"
	}
	a.audit.add(e)
	if err != nil {
		return nil, err
	}
	body := a.emergencyAnswer(r, &is)
	body.Replaced = stateBody(&was)
	return body, nil
}

// emergencyError translates the errors of a switching.
func emergencyError(err error) error {
	_, known := errors.AsType[*apiError](err)
	switch {
	case err == nil || known:
		return err
	case errors.Is(err, emergency.ErrChanged):
		return &apiError{Status: http.StatusPreconditionFailed, Code: "PRECONDITION_FAILED", Message: fmt.Sprintf("%v (look at it with GET /v1/emergency, then decide again)", err)}
	}
	return &apiError{Status: http.StatusServiceUnavailable, Code: "NOT_IN_FORCE", Message: err.Error()}
}

// emergencyTag returns the entity tag of a state, or "" if no emergency is on.
func emergencyTag(revision string) string {
	if revision == "" {
		return ""
	}
	return `"` + revision + `"`
}

// emergencyAnswer returns the state with the nodes that obey it. A source that does not
// answer is no error here: the node itself is known.
func (a *API) emergencyAnswer(r *request, s *emergency.Status) *emergencyBody {
	if tag := emergencyTag(s.Revision); tag != "" {
		r.w.Header().Set("ETag", tag)
	}
	body := &emergencyBody{On: s.Revision != "", emergencyState: stateBody(&s.State), Shareable: s.Shareable, Nodes: []emergencyNode{}}
	ctx, cancel := context.WithTimeout(r.Context(), nodesTime)
	defer cancel()
	nodes, err := a.Rules.Nodes(ctx)
	if s.Shareable && (s.SourceErr != nil || err != nil) {
		body.SourceError = "the source of the rules does not answer or fails (the log of the node has the cause)"
	}
	body.Shared = s.Shared && body.SourceError == ""
	for _, n := range nodes {
		body.Nodes = append(body.Nodes, emergencyNode{n.ID, n.Address, n.Emergency == s.Revision})
	}
	return body
}

// nodesTime bounds the wait for a list of nodes that an answer has beside its subject. It is shorter
// than that of a change: an emergency, for example, is switched already.
const nodesTime = time.Second
