package adminapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/denials"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

// Rules reads and publishes rules. [ruleset.Manager] implements it.
type Rules interface { //nolint:interfacebloat // the manager is one object, and each method is one endpoint's
	// Current returns the rules that this node runs.
	Current() (*rule.Set, ruleset.Version)
	History(ctx context.Context, n int) ([]ruleset.Version, error)
	Get(ctx context.Context, number uint64) (ruleset.Version, error)
	// Base returns the version to change and the newest version, which the changed
	// one must follow.
	Base(ctx context.Context) (base, newest ruleset.Version, err error)
	// Publish returns once the version is in force on this node.
	Publish(ctx context.Context, c ruleset.Change) (ruleset.Version, error)
	Nodes(ctx context.Context) ([]ruleset.Node, error)
	// Self returns this node. It asks nobody.
	Self() ruleset.Node
	// CheckCanary returns why the source of the rules cannot carry a canary.
	CheckCanary() error
	CanaryStatus(ctx context.Context) (ruleset.CanaryStatus, error)
	EndCanary(ctx context.Context, e ruleset.CanaryEnd) (ruleset.Version, error)
	// CanaryEnded reports a canary that an operator has ended.
	CanaryEnded(promoted bool, why ruleset.CanaryReason)
}

// Config configures an [API]. Rules and Store are required.
type Config struct {
	Rules Rules
	// Store holds the state of keys.
	Store stint.Store
	// NamedStores is set if Store has several stores. Errors then name the one that fails.
	NamedStores bool
	// Tokens holds the permissions. Nil permits everyone everything; use it only
	// for a listener on loopback.
	Tokens *Tokens
	// Trial returns what this server would warn of if a valid set were in force, beside
	// the warnings of the set itself, and why it cannot apply the set. Nil finds nothing.
	Trial func(*rule.Set) (rule.Problems, error)
	// Sample holds the traffic that changes are replayed on. Nil skips the replay.
	Sample *impact.Sample
	// MostDenied is the largest share of formerly allowed requests that a new set
	// may deny. A set that denies more is refused.
	MostDenied float64
	// Emergency switches the emergency. Nil: the API has none.
	Emergency Emergency
	// Top counts the keys of this node. Nil: the API shows none.
	Top Top
	// Shadows counts the denials of rules in shadow mode. It is required with Top.
	Shadows *topkeys.Shadows
	// Denials has the last denials of this node. Nil: the API shows none.
	Denials *denials.Recent
	// HashKey returns the hash that stands for a key, the same as in lists of denials. Nil: the
	// API shows none.
	HashKey func(key string) string
	// DecisionLog is the file of the decision log of this server, for replays. Empty: there is
	// none.
	DecisionLog string
	// Live has the last seconds of this node. Nil: the API shows none.
	Live Live
	// Logger receives every change and every failure. Nil disables logging.
	Logger *slog.Logger
}

// API is the handler of the admin API. Make it by [New]. It is safe for
// concurrent use.
type API struct {
	Config

	mux   *http.ServeMux
	audit audit
	now   func() time.Time

	changing turn // held by a change of the rules: concurrent changes would conflict
	reading  turn // held by a request that parses rules without changing them

	// The bodies of viewers' requests, of other roles' read requests and of changes
	// have separate bounds. Viewers then cannot keep operators waiting, and reads
	// cannot keep changes waiting.
	viewerBodies, readBodies, changeBodies *bodies

	replaying    turn // held by the replay that runs
	replayBounds replayBounds

	views views // the live views that are open
	fleet fleet // the nodes, for all live views
	words rulesInWords
	tiers tiersOfSet

	changes ruleChanges
}

// New returns an API.
func New(c Config) *API {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{Config: c, mux: http.NewServeMux(), now: time.Now, changing: newTurn(), reading: newTurn(), replaying: newTurn(), replayBounds: defaultReplayBounds()}
	a.viewerBodies, a.readBodies, a.changeBodies = newBodies(), newBodies(), newBodies()
	a.audit.log = c.Logger.With("log", "audit")
	for _, e := range a.endpoints() {
		a.mux.Handle(e.pattern, a.handler(e))
	}
	a.mux.HandleFunc("GET /openapi.yaml", openapi)
	return a
}

// Paths returns the paths that the API serves, each with everything below it.
func Paths() []string {
	return []string{"/rules", "/lists", "/nodes", "/audit", "/v1", "/openapi.yaml"}
}

// endpoint is one route of the API.
type endpoint struct {
	pattern string // method and path in the syntax of [http.ServeMux]
	needs   Role
	answer  func(r *request) (any, error)
}

func (a *API) endpoints() []endpoint {
	return []endpoint{
		{"GET /rules", Viewer, a.readSet},
		{"PUT /rules", Admin, a.putSet},
		{"POST /rules/validate", Viewer, a.validate},
		{"GET /rules/{id}", Viewer, a.read(ruleedit.TextOfRule)},
		{"GET /rules/{id}/{$}", Viewer, a.read(ruleedit.TextOfRule)}, // also of ids such as history
		{"PUT /rules/{id}", Operator, a.put("rule", ruleTag, ruleedit.PutRule)},
		{"DELETE /rules/{id}", Operator, a.remove("rule", ruleTag, ruleedit.DeleteRule)},
		{"GET /rules/tier/{tier}", Viewer, a.read(ruleedit.TextOfTier)},
		{"PUT /rules/tier/{tier}", Operator, a.putTier},
		{"DELETE /rules/tier/{tier}", Operator, a.remove("tier", tierTag, ruleedit.DeleteTier)},
		{"GET /rules/history", Viewer, a.history},
		{"GET /rules/versions/{version}", Viewer, a.version},
		{"GET /rules/diff", Viewer, a.diff},
		{"POST /rules/rollback", Admin, a.rollback},
		{"PUT /rules/{id}/override/{key...}", Operator, a.putOverride},
		{"DELETE /rules/{id}/override/{key...}", Operator, a.deleteOverride},
		{"PUT /rules/{id}/override/{$}", Operator, a.putOverride}, // with the key in the query
		{"DELETE /rules/{id}/override/{$}", Operator, a.deleteOverride},
		{"GET /lists", Viewer, a.lists},
		{"PUT /lists/{list}/{match...}", Operator, a.putEntry},
		{"DELETE /lists/{list}/{match...}", Operator, a.deleteEntry},
		{"PUT /lists/{list}/{$}", Operator, a.putEntry}, // with the entry in the query
		{"DELETE /lists/{list}/{$}", Operator, a.deleteEntry},
		{"POST /v1/peek", Viewer, a.peek},
		{"POST /v1/reset", Operator, a.reset},
		{"POST /v1/grant", Operator, a.grant},
		{"POST /v1/ban", Operator, a.ban},
		{"POST /v1/unban", Operator, a.unban},
		{"GET /v1/emergency", Viewer, a.emergencyStatus},
		{"PUT /v1/emergency", Operator, a.putEmergency},
		{"DELETE /v1/emergency", Operator, a.deleteEmergency},
		{"GET /v1/canary", Viewer, a.canaryStatus},
		{"POST /v1/canary/promote", Admin, a.promoteCanary},
		{"POST /v1/canary/abort", Operator, a.abortCanary},
		{"GET /v1/top", Viewer, a.top},
		{"GET /v1/denied", Viewer, a.denied},
		{"GET /v1/sample", Viewer, a.sample},
		{"GET /v1/live", Viewer, a.live},
		{"GET /v1/whoami", Viewer, a.whoami},
		{"GET /v1/rules", Viewer, a.ruleList},
		{"GET /v1/tiers", Viewer, a.tierList},
		{"POST /v1/explain", Viewer, a.explain},
		{"POST /v1/replay", Operator, a.postReplay},
		{"POST /v1/why", Viewer, a.why},
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

// unknown answers a request without an endpoint, in the format of the API.
func (a *API) unknown(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := statusOnly{header: http.Header{}}
	handler.ServeHTTP(&probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		writeError(w, &apiError{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Message: "use " + allow})
		return
	}
	writeError(w, &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: "no such endpoint (see /openapi.yaml; checks and takes are on the --http listener)"})
}

// statusOnly is a ResponseWriter that keeps only the headers.
type statusOnly struct{ header http.Header }

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
func (s *statusOnly) WriteHeader(int)             {}

// handler returns the handler of an endpoint. It checks the sender's role and
// answers errors.
func (a *API) handler(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.who(r, e.needs)
		if err != nil {
			writeError(w, asError(err))
			return
		}
		q := &request{Request: r, w: w, who: who, bodies: a.bodiesOf(who.role, e.needs)}
		defer func() {
			if q.release != nil {
				q.release()
			}
		}()
		answer, err := e.answer(q)
		if err != nil {
			a.fail(q, err)
			return
		}
		writeAnswer(w, answer)
	})
}

// bodiesOf returns the bound on the body of a request by a role.
func (a *API) bodiesOf(role, needs Role) *bodies {
	switch {
	case role == Viewer:
		return a.viewerBodies
	case needs == Viewer:
		return a.readBodies
	}
	return a.changeBodies
}

// fail answers an error, and logs it unless the caller caused it.
func (a *API) fail(q *request, err error) {
	e := asError(err)
	switch change, changing := errors.AsType[*changeError](err); {
	case changing && change.made:
		part := *e
		part.Unknown, e = true, &part
	case e.Unknown && !changing:
		e.Unknown = false
		if e.Code == codeSource {
			e.Message = "the source of the rules does not answer or fails (try again; the log of the node has the cause)"
			if isChange(q.Request) {
				e.Message = "nothing was changed: " + e.Message
			}
		}
	}
	store, isStore := errors.AsType[*stint.Error](err)
	switch {
	case e.Status < http.StatusInternalServerError || e.Code == codeBusy || q.Context().Err() != nil:
	case isStore && store.Kind == stint.KindBreakerOpen: // logged when the circuit opened
	case isStore:
		a.Logger.Error("no decision", "endpoint", q.Pattern, "error", err)
	default:
		a.Logger.Error("admin request failed", "endpoint", q.Pattern, "error", err)
	}
	writeError(q.w, e)
}
