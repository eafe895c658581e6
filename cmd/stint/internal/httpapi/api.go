// Package httpapi answers over HTTP: the check API below /v1, forward auth, and Envoy's
// rate limit service as JSON. It also has the parts that other HTTP listeners share: the
// router, error bodies, and the guards against browsers.
//
// [API] reads a request into checks and takes, package decide decides them, and API writes
// the answers. The package promises that a body is bounded and read strictly, that an
// error says what is wrong and how to mend it, and that no answer repeats a token or names
// an internal server.
//
// A request goes down through router.go (path, token, origin), endpoint.go (body, then
// decision, then answer), input.go and json_scan.go (members of the body), and back
// through decision_json.go. docs/how-it-works.md has the whole walk, file by file.
package httpapi

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"sync"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/secret"
)

// Options configures an [API]. All fields but Token are required.
type Options struct {
	Decider *decide.Decider // decides /v1/check, /v1/take and the like
	Auth    *ForwardAuth
	// Envoy is Envoy's rate limit service, for /json. Its context has the span of the request:
	// see [w3ctrace.FromContext].
	Envoy func(context.Context, *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error)
	// Token is the bearer token that every deciding endpoint requires; nil requires none.
	Token *secret.Text
	// Refused is called for each request without the token.
	Refused func()
	// Loopback says that the listener is on loopback. Without a Token, the API then also
	// refuses requests whose Host does not name this machine.
	Loopback bool
	Logger   *slog.Logger
}

// API answers the check API. Make it with [New].
type API struct {
	options Options
	errors  ErrorWriter
	limits  *limitCache
	works   sync.Pool // a pool of *work
}

// New returns an API.
func New(o Options) *API {
	a := &API{options: o, errors: ErrorWriter{o.Logger}, limits: newLimitCache()}
	a.works.New = func() any { return &work{api: a, Batch: o.Decider.NewBatch()} }
	return a
}

// AddTo adds the endpoints to a router.
func (a *API) AddTo(t *Router) {
	token := &guard{a.options.Token, a.options.Refused, a.errors}
	for path, handle := range map[string]http.HandlerFunc{
		checkPath:      a.single(checkMembers, (*work).addCheck),
		"/v1/take":     a.single(takeMembers, (*work).addTake),
		"/v1/peek":     a.single(peekMembers, (*work).addPeek),
		"/v1/refund":   a.single(takeMembers, (*work).addRefund),
		"/v1/giveback": a.single(takeMembers, (*work).addRefund), // the former name of /v1/refund
		batchPath:      a.endpoint((*work).readBatch, (*work).answerBatch),
		"/json":        a.envoyJSON,
	} {
		t.Paths[path] = Route{http.MethodPost, a.notFromPages(token.wrap(handle))}
	}
	t.Paths["/openapi.yaml"] = Route{http.MethodGet, openAPI}
	// A request for forward auth carries the Origin and the Host of the request that the proxy
	// asks about, so browser checks do not apply.
	t.Folders = append(t.Folders, Folder{AuthPath, token.wrap(httplimit.SpellHeaders(a.options.Auth).ServeHTTP)})
}

// notFromPages guards an endpoint against pages of other sites. It checks the Host only
// if the listener is on loopback without a token. On other listeners, operators may use
// any host name.
func (a *API) notFromPages(next http.HandlerFunc) http.HandlerFunc {
	const refusal = "pages of other sites are refused: call the check API from a server, not from a browser"
	if a.options.Token == nil && a.options.Loopback {
		next = a.errors.LoopbackHostOnly(next, refusal)
	}
	return a.errors.OwnPagesOnly(next, refusal)
}

//go:embed openapi.yaml
var openAPIDocument []byte

// openAPI answers with the document that describes the API. It has nothing of this
// server, so everyone may read it.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/yaml")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPIDocument) // the client may be gone
}
