package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/denials"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/identity"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/metrics"
	"github.com/stintdev/stint/cmd/stint/internal/penalty"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/rule/rulelimit"
)

// rules hold the rule set in force and the store that it decides by.
type rules struct {
	store     stint.Store // what requests are decided by: counts keys, if any, then punishes
	penalties *penalty.Store
	shadows   topkeys.Shadows
	fewWrites map[string]string // see Config.FewWrites
	hotRate   int64             // 0: hot keys are not watched for
	metrics   *metrics.Metrics
	log       *slog.Logger
	manager   *ruleset.Manager
	builtin   bool // there is no rule source
	gateway   bool // there is a gateway
	loaded    bool // the first version is in force
	state     stateFolder
	current   atomic.Pointer[version]
	switched  *emergency.Switch
	sample    *impact.Sample   // nil if no sample is kept
	decisions *decisionlog.Log // nil: no decisions are logged
	denials   *denials.Recent  // nil: no denials are kept

	pathEncoding rule.PathEncoding
	identity     httplimit.Identity
	checks       bool     // there are callers who send attributes
	stores       []string // that rules can name beside the default one

	canaries canaryCounts // of the newest canary

	changing  sync.Mutex       // held while current is replaced
	base      *version         // guarded by changing; the rules in force, without an emergency
	from      ruleset.Version  // guarded by changing; that of base
	emergency *emergency.State // guarded by changing; nil: there is no emergency
}

// version is a rule set with the counters of each of its rules. It implements
// [decide.Rules].
type version struct {
	set      *rule.Set
	counters *metrics.SetCounters
	metrics  *metrics.Metrics
	sample   *impact.Sample        // nil if no sample is kept
	recorder *decisionlog.Recorder // nil: no decisions are logged
	denials  *denials.Recorder     // nil: no denials are kept
	headers  map[string]bool       // canonical names of the headers that the rules read
	reader   *identity.Reader
	identity httplimit.Identity // that of the server, with the sources that the rules name
	warned   *sync.Once         // of warnRequests

	emergency *emergency.InForce // nil: there is no emergency
	canary    *canary            // nil: there is none, or the version is that of its callers
	counts    *sideCounts        // nil: there is no canary

	surfaces [metrics.Surfaces]surfaceRules
}

// surfaceRules are the rules of a version as one surface uses them. It implements
// [decide.Rules].
type surfaceRules struct {
	*version

	surface metrics.Surface
	decider *rulelimit.Decider // nil unless the surface decides HTTP requests
}

// RuleSet implements [decide.Rules].
func (v *version) RuleSet() *rule.Set { return v.set }

// Read implements [decide.Rules].
func (v *version) Read(given rule.Attributes) (rule.Attributes, error) { return v.reader.Read(given) }

// Count implements [decide.Rules]. It counts an outcome, adds it to the sample, logs it, and
// keeps a denial.
func (v *surfaceRules) Count(a rule.Attributes, cost int64, o *rule.Outcome, span w3ctrace.Ref) {
	if v.counts != nil {
		v.counts.add(v.set.Caller(a, v.counts.by), cost, o)
	}
	v.metrics.CheckDecided(v.surface, o)
	v.metrics.CountOutcome(o, v.counters)
	if v.sample != nil {
		v.sample.Add(v.set.Attributes(), a, cost, o)
	}
	if v.recorder != nil {
		v.recorder.Record(a, cost, o, span)
	}
	if v.denials != nil && !o.Allowed() {
		v.denials.Record(uint8(v.surface), a, cost, o)
	}
}

// newRules loads the first version of the rules.
func newRules(config *Config, store stint.Store, keys *topkeys.Sketch, recent *denials.Recent, node func() ruleset.Node, m *metrics.Metrics) (*rules, error) {
	var hot func(stint.Limit, string) bool
	if config.HotKeyRate > 0 {
		hot = keys.Hot
	}
	punishing := penalty.New(store, &penaltyObserver{metrics: m, log: config.Logger}, hot)
	r := &rules{penalties: punishing, hotRate: config.HotKeyRate, fewWrites: config.FewWrites, metrics: m, log: config.Logger, decisions: config.DecisionLog, denials: recent, pathEncoding: config.PathEncoding,
		identity: config.identity(), gateway: config.Gateway != "", checks: config.Gateway == "" || config.HTTP != "" || config.GRPC != ""}
	for i := range config.Stores {
		r.stores = append(r.stores, config.Stores[i].Name)
	}
	r.store = countKeys(punishing, keys, &r.shadows)
	if config.MostDenied > 0 {
		r.sample = impact.New(nil)
		r.sample.KeepPathEncoding = config.PathEncoding == rule.PathKeep
		r.sample.HashKey = config.KeyHash.Hash
	}
	o := ruleset.Options{Node: node, Check: r.check, OnSet: r.onSet, OnError: r.onError, OnCheck: r.onLook, OnCurrent: m.RulesCurrent, OnCanaryEnd: m.CanaryEnded, Logger: r.log}
	if r.sample != nil {
		o.OnSecret = r.sample.Join
	}
	switch {
	case config.RuleSource != nil:
		r.state = openStateFolder(config.StateDir, config.RuleSource.String(), r.log)
		o.Source, o.CopyDir = config.RuleSource, r.state.path
	case config.Rules != "":
		r.state = openStateFolder(config.StateDir, absolute(config.Rules), r.log)
		o.Source, o.Local = ruleset.NewFiles(config.Rules, r.state.path, r.log), true
	default:
		r.state = openStateFolder(config.StateDir, config.Rules, r.log)
		o.Source, o.Local, r.builtin = &ruleset.Memory{}, true, true
		r.log.Info("no --rules given: serving the built-in rules")
	}
	r.manager = ruleset.NewManager(o)
	m.ReadRules(func() *metrics.SetCounters { return r.current.Load().counters })
	m.ReadCanary(r.announced)
	r.switched = r.newSwitch(o.Source, r.state.path)
	m.ReadStale(r.manager.Stale)
	if err := r.manager.Load(context.Background()); err != nil {
		return nil, err
	}
	r.loaded = true
	r.switched.Start(context.Background(), r.manager.Answered())
	if _, v := r.manager.Current(); v.Number == 0 && !r.builtin {
		r.log.Warn("rules: neither the source nor a local copy has a version that this server can apply: serving the built-in rules until one is published", "source", o.Source.String())
	}
	return r, nil
}

// absolute returns the absolute path of a file, or the path itself where that is unknown.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// check returns an error for a set whose limits this server cannot apply to any request.
func (r *rules) check(set *rule.Set) error {
	problems := append(emergency.CheckSet(set), identity.CheckRules(set, r.tokens(), r.checks)...)
	if problems = append(problems, set.CheckStores(r.stores...)...); problems != nil {
		return problems
	}
	return nil
}

// tokens reports whether keys verify the tokens of requests.
func (r *rules) tokens() bool { return r.identity.Tokens != nil }

// trial returns what this server would warn of if a set were in force, and why it cannot
// apply the set.
func (r *rules) trial(set *rule.Set) (warnings rule.Problems, err error) {
	if err := r.check(set); err != nil {
		return nil, err
	}
	warnings = identity.UnverifiedClaims(set, r.tokens())
	if r.gateway {
		warnings = append(warnings, identity.UnreadableAttributes(set, r.tokens())...)
	}
	return warnings, nil
}

// onSet puts a rule set in force. Requests that are being decided keep the previous one.
func (r *rules) onSet(set *rule.Set, from ruleset.Version) {
	r.changing.Lock()
	v, err := r.newBase(set, from)
	if err != nil {
		r.changing.Unlock()
		r.onError(err)
		return
	}
	set = v.set
	old, before := r.base, r.from
	r.base, r.from = v, from
	current, err := r.withEmergencyLocked()
	if err != nil {
		r.log.Error("emergency: it is not in force with these rules", errorAttr(err))
	}
	r.install(current)
	r.changing.Unlock()
	if old != nil {
		r.metrics.Forget(old.sets(), v.sets())
	}
	r.metrics.RulesInForce(from.Number, from.Hash)
	r.logCanary(before, from)
	r.warn(v)
	if r.gateway {
		r.warnRequests(v)
	}
	if r.loaded {
		r.metrics.RulesReloaded(true)
		r.log.Info("rules reloaded", "version", from.Number, "rules", len(set.Rules()), "author", from.Author)
		return
	}
	if from.Number > 0 {
		r.log.Info("rules loaded", "version", from.Number, "rules", len(set.Rules()))
	}
}

// newVersion returns a rule set with its decider; beside are the sets that stay in force beside it. That never fails: the set comes from a
// source, and a rule that only other surfaces can apply is allowed.
func (r *rules) newVersion(set *rule.Set, beside ...*rule.Set) (*version, error) {
	v := &version{warned: new(sync.Once), counters: r.metrics.Rules(set), metrics: r.metrics, sample: r.sample, headers: headersOf(set), identity: r.identity}
	for i := range v.surfaces {
		v.surfaces[i] = surfaceRules{version: v, surface: metrics.Surface(i)}
	}
	var err error
	for _, s := range []metrics.Surface{metrics.Auth, metrics.Gateway} {
		own := &v.surfaces[s]
		own.decider, err = rulelimit.New(set, r.store, rulelimit.Options{
			Identity: r.identity, PathEncoding: r.pathEncoding, AllowUnsupported: true, Stores: r.stores,
			Observe: func(q *httplimit.Request, cost int64, o *rule.Outcome) {
				own.Count(q, cost, o, spanOf(q.Context(), q.Header))
			},
		})
		if err != nil {
			return nil, err
		}
		v.set = own.decider.Status().Set
	}
	if named := set.Identity(); named != nil {
		if v.identity.APIKey, err = identity.ParseSources(named); err != nil {
			return nil, err
		}
	}
	if r.decisions != nil {
		v.recorder = r.decisions.Rules(v.set, beside...)
	}
	if slices.ContainsFunc(v.set.Rules(), func(one *rule.Rule) bool { return one.Mode == rule.Shadow }) {
		r.shadows.Start()
	}
	if r.denials != nil {
		v.denials = r.denials.Rules(v.set)
	}
	v.reader = identity.NewReader(&v.identity, set.Attributes())
	for _, name := range v.reader.Headers() {
		v.headers[name] = true
	}
	return v, nil
}

// headersOf returns the canonical names of the headers that a rule set may read.
func headersOf(set *rule.Set) map[string]bool {
	headers := map[string]bool{}
	for _, name := range set.Attributes() {
		if header, ok := strings.CutPrefix(name, "header:"); ok {
			headers[http.CanonicalHeaderKey(header)] = true
		}
	}
	return headers
}

// readsHeader reports whether the rules in force may read the header with this canonical
// name.
func (r *rules) readsHeader(name string) bool { return r.current.Load().headers[name] }

func (r *rules) warn(v *version) {
	if len(v.set.Rules()) == 0 {
		r.log.Warn("rules: the set is empty, so nothing is limited")
	}
	if r.identity.APIKey != nil && !slices.Equal(v.identity.APIKey, r.identity.APIKey) {
		instead := v.set.CheckIdentity(func(string) error {
			return errors.New("identity of the rules replaces --identity (remove one of them)")
		})
		r.log.Warn("rules: " + instead[0].Error())
	}
	for _, w := range v.set.Warnings() {
		r.log.Warn("rules: " + w.Error())
	}
	if r.hotRate <= 0 && slices.ContainsFunc(v.set.Rules(), func(one *rule.Rule) bool { return one.Penalty != nil && one.Penalty.HotKey > 0 }) {
		r.log.Warn("rules: a penalty has hot_key, but hot keys are not watched for (give --hot-key-rate a number above 0)")
	}
	if identity.RawTokens(&v.identity) {
		r.log.Warn("identity: the api_key of a client with a JSON Web Token is the whole token, so each new token gets a new count (put jwt:CLAIM before the source of tokens in --identity, or leave that source out)")
	}
	r.warnEach("rules: ", identity.UnverifiedClaims(v.set, r.tokens()))
	for _, store := range slices.Sorted(maps.Keys(r.fewWrites)) {
		r.warnEach("rules: "+r.fewWrites[store]+": ", v.set.StrictSharedKeys(store))
	}
}

// mostWarnings bounds the lines of one kind of warning.
const mostWarnings = 10

// warnEach logs the first problems, and their number.
func (r *rules) warnEach(text string, problems rule.Problems) {
	for _, p := range problems[:min(len(problems), mostWarnings)] {
		r.log.Warn(text+p.Error(), "problems", len(problems))
	}
}

// warnRequests logs, once for each version, which rules read what no HTTP request has. The
// gateway and forward auth count by ip in its place, or do not apply the rule. Such rules are
// valid nevertheless, because callers of the check API may send any attribute. A server
// without a gateway therefore warns only when forward auth decides a request. Claims that no
// key verifies are not among these rules: warn reports them at each load.
func (r *rules) warnRequests(v *version) {
	v.warned.Do(func() {
		r.warnEach("rules: ", identity.UnreadableAttributes(v.set, r.tokens()))
	})
}

// onError is called by the manager when it rejects a new version.
func (r *rules) onError(err error) {
	r.metrics.RulesReloaded(false)
	r.log.Error("rules rejected; the previous version stays in force", errorAttr(err))
}

// onLook is called by the manager after each poll of the source.
func (r *rules) onLook(err error) {
	r.metrics.RulesPolled(err, r.manager == nil || r.manager.Up())
}

// reload reads the rules again now.
func (r *rules) reload() {
	if r.builtin {
		r.log.Info("nothing to reload: the rules are built in")
	}
	r.manager.Reload()
}

// node returns the identity under which this server announces itself to the servers that
// share its rules.
func (s *Server) node() ruleset.Node {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	n := ruleset.Node{ID: s.nodeID, Address: host, Program: programVersion()}
	for _, name := range []string{"http", "gateway", "grpc", "resp", "admin"} {
		if addr, ok := s.Addr(name).(*net.TCPAddr); ok {
			if _, port, err := net.SplitHostPort(addr.String()); err == nil {
				n.Address = net.JoinHostPort(host, port)
				break
			}
		}
	}
	n.ID = cmp.Or(n.ID, n.Address)
	n.Emergency = s.rules.switched.Status().Revision
	n.Canary = s.rules.announced()
	n.Traffic, n.Status = s.traffic(), s.status()
	return n
}

// programVersion returns the version of Stint that was built, such as "v0.1.0".
func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
