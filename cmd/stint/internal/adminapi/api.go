package adminapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// Rules is where rules are read and published: a [ruleset.Keeper].
type Rules interface {
	// Current is what this node runs.
	Current() (*rule.Set, ruleset.Version)
	History(ctx context.Context, n int) ([]ruleset.Version, error)
	Get(ctx context.Context, number uint64) (ruleset.Version, error)
	// Base is what a change is made on, and the version that it is to follow.
	Base(ctx context.Context) (base, newest ruleset.Version, err error)
	// Publish returns once the version is in force on this node.
	Publish(ctx context.Context, c ruleset.Change) (ruleset.Version, error)
	Nodes(ctx context.Context) ([]ruleset.Node, error)
}

// Config is what the API works with. Rules and Store are required.
type Config struct {
	Rules Rules
	// Store keeps the state of keys.
	Store stint.Store
	// Tokens says who may do what. Nil lets everyone do everything, which is
	// for listeners that only this machine reaches.
	Tokens *Tokens
	// Sample is the traffic that changes are tried on. Nil tries them on none.
	Sample *impact.Sample
	// MostDenied is the share of what was allowed that another set may deny
	// before it is refused.
	MostDenied float64
	// Logger hears of every change and of what fails. Nil means silence.
	Logger *slog.Logger
}

// API answers requests. Make it by [New]. It is safe for use by many
// goroutines at once.
type API struct {
	Config

	mux   *http.ServeMux
	audit audit
	now   func() time.Time

	changing turn // of who changes rules: two at once would be in each other's way
	reading  turn // of who parses rules to look at them

	// Bodies of viewers' requests, and of others' that look and that change. They
	// are apart, so that viewers cannot keep operators waiting, nor looks changes.
	viewed, looked, changed *bodies
}

// New returns an API.
func New(c Config) *API {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{Config: c, mux: http.NewServeMux(), now: time.Now, changing: newTurn(), reading: newTurn()}
	a.viewed, a.looked, a.changed = newBodies(), newBodies(), newBodies()
	a.audit.log = c.Logger.With("log", "audit")
	for _, e := range a.endpoints() {
		a.mux.Handle(e.pattern, a.handler(e))
	}
	a.mux.HandleFunc("GET /openapi.yaml", openapi)
	return a
}

// Paths are the paths that the API answers, itself and all below.
func Paths() []string {
	return []string{"/rules", "/lists", "/nodes", "/audit", "/v1", "/openapi.yaml"}
}

// endpoint is one thing to ask for.
type endpoint struct {
	pattern string // method and path, as http.ServeMux has them
	needs   Role
	answer  func(r *request) (any, error)
}

func (a *API) endpoints() []endpoint {
	return []endpoint{
		{"GET /rules", Viewer, a.readSet},
		{"PUT /rules", Admin, a.putSet},
		{"POST /rules/validate", Viewer, a.validate},
		{"GET /rules/{id}", Viewer, a.readRule},
		{"PUT /rules/{id}", Operator, a.putRule},
		{"DELETE /rules/{id}", Operator, a.deleteRule},
		{"GET /rules/tier/{tier}", Viewer, a.readTier},
		{"PUT /rules/tier/{tier}", Operator, a.putTier},
		{"DELETE /rules/tier/{tier}", Operator, a.deleteTier},
		{"GET /rules/history", Viewer, a.history},
		{"GET /rules/versions/{version}", Viewer, a.version},
		{"GET /rules/diff", Viewer, a.diff},
		{"POST /rules/rollback", Admin, a.rollback},
		{"PUT /rules/{id}/override/{key...}", Operator, a.putOverride},
		{"DELETE /rules/{id}/override/{key...}", Operator, a.deleteOverride},
		{"GET /lists", Viewer, a.lists},
		{"PUT /lists/{list}/{match...}", Operator, a.putEntry},
		{"DELETE /lists/{list}/{match...}", Operator, a.deleteEntry},
		{"POST /v1/peek", Viewer, a.peek},
		{"POST /v1/reset", Operator, a.reset},
		{"POST /v1/grant", Operator, a.grant},
		{"POST /v1/ban", Operator, a.ban},
		{"POST /v1/unban", Operator, a.unban},
		{"GET /nodes", Viewer, a.nodes},
		{"GET /audit", Viewer, a.auditLog},
	}
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler, pattern := a.mux.Handler(r); pattern == "" {
		a.unknown(w, r, handler)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// unknown answers what has no endpoint, in the form of every other answer.
func (a *API) unknown(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := statusOnly{header: http.Header{}}
	handler.ServeHTTP(&probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		writeError(w, &apiError{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Message: "use " + allow})
		return
	}
	writeError(w, &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: "there is nothing here; see /openapi.yaml"})
}

// statusOnly hears what a handler would answer.
type statusOnly struct{ header http.Header }

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
func (s *statusOnly) WriteHeader(int)             {}

// handler makes an endpoint a handler: who asks is known, and what fails is
// answered in one form.
func (a *API) handler(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.who(r, e.needs)
		if err != nil {
			writeError(w, asError(err))
			return
		}
		q := &request{Request: r, w: w, who: who, bodies: a.bodiesOf(who.role, e.needs)}
		defer q.end()
		answer, err := e.answer(q)
		if err != nil {
			a.fail(q, err)
			return
		}
		writeAnswer(w, answer)
	})
}

// bodiesOf is what bounds the body of a request by somebody of a role.
func (a *API) bodiesOf(role, needs Role) *bodies {
	switch {
	case role == Viewer:
		return a.viewed
	case needs == Viewer:
		return a.looked
	}
	return a.changed
}

// end makes room for the bodies of others.
func (r *request) end() {
	if r.release != nil {
		r.release()
	}
}

// fail answers an error, and logs what is not the caller's mistake.
func (a *API) fail(q *request, err error) {
	e := asError(err)
	if e.Code == codeSource && !isChange(q.Request) && !errors.Is(err, ruleset.ErrDamaged) {
		e.Message = "the source of the rules does not answer, or fails"
	}
	store, isStore := errors.AsType[*stint.Error](err)
	switch {
	case e.Status < http.StatusInternalServerError || e.Code == codeBusy || q.Context().Err() != nil:
	case isStore && store.Kind == "breaker_open": // that was logged when it began
	case isStore:
		a.Logger.Error("no decision", "endpoint", q.Pattern, "error", err)
	default:
		a.Logger.Error("admin request failed", "endpoint", q.Pattern, "error", err)
	}
	writeError(q.w, e)
}
