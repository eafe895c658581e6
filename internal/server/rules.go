package server

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// rules are the rule set in force, over the store.
type rules struct {
	path    string // empty when the rules are built in
	store   stint.Store
	metrics *metrics
	log     *slog.Logger
	watcher *ruleset.Watcher // nil when the rules are built in
	current atomic.Pointer[version]

	following chan struct{} // closed when changes from now on are noticed
	begun     bool          // following is closed; of the watcher's goroutine
	blind     atomic.Bool   // the watcher has ended: nothing tells of changes
}

// version is one rule set and what is kept beside each of its rules.
type version struct {
	number  int64
	set     *rule.Set
	views   map[*rule.Rule]*view
	metrics *metrics
}

// newRules reads the rules of path, or takes the built-in ones when it is
// empty.
func newRules(path string, store stint.Store, m *metrics, log *slog.Logger) (*rules, error) {
	r := &rules{path: path, store: store, metrics: m, log: log, following: make(chan struct{})}
	if path == "" {
		close(r.following)
		log.Info("no --rules given: serving the built-in rules")
		r.install(rule.Builtin(), 1)
		return r, nil
	}
	set, err := rule.Load(path)
	if err != nil {
		return nil, err
	}
	r.install(set, 1)
	r.warn(set)
	r.watcher = ruleset.New(path, r.onSet, r.onError)
	return r, nil
}

// install puts a set in force. Requests that are being decided keep theirs.
func (r *rules) install(set *rule.Set, number int64) {
	v := &version{number: number, set: set, views: make(map[*rule.Rule]*view, len(set.Rules())), metrics: r.metrics}
	for _, one := range set.Rules() {
		v.views[one] = newView(one, r.metrics)
	}
	r.current.Store(v)
	r.metrics.version.Set(float64(number))
}

func (r *rules) warn(set *rule.Set) {
	for _, w := range set.Warnings() {
		r.log.Warn("rules: " + w.Error())
	}
}

// onSet is called by the watcher with what it has read. Its first set is the
// one that is in force already, unless the file has changed since.
func (r *rules) onSet(set *rule.Set) {
	number := r.current.Load().number
	if r.begin() {
		r.install(set, number)
		return
	}
	r.install(set, number+1)
	r.warn(set)
	r.metrics.reloads.WithLabelValues("ok").Inc()
	r.log.Info("rules reloaded", "version", number+1, "rules", len(set.Rules()))
}

func (r *rules) onError(err error) {
	r.begin()
	r.metrics.reloads.WithLabelValues("error").Inc()
	r.log.Error("rules kept: what changed has mistakes", errorAttr(err))
}

// begin reports whether this is the first that the watcher has to say.
func (r *rules) begin() (first bool) {
	if r.begun {
		return false
	}
	r.begun = true
	close(r.following)
	return true
}

// follow reads the rules again whenever they change, until ctx ends. Where
// they cannot be watched, as on a machine whose watches are used up, they are
// served all the same, and read again when asked.
func (r *rules) follow(ctx context.Context) {
	if r.watcher == nil {
		return
	}
	if err := r.watcher.Run(ctx); err != nil {
		r.log.Warn("rules are not followed: send SIGHUP when they have changed", errorAttr(err))
		r.blind.Store(true)
		r.begin()
	}
}

// reload reads the rules again now.
func (r *rules) reload() {
	switch {
	case r.watcher == nil:
		r.log.Info("nothing to reload: the rules are built in")
	case !r.blind.Load():
		r.watcher.Reload()
	default:
		set, err := rule.Load(r.path)
		if err != nil {
			r.onError(err)
			return
		}
		r.onSet(set)
	}
}

// decide decides a request by the rules in force, and counts what came out.
func (r *rules) decide(ctx context.Context, a rule.Attributes, cost int64, o *rule.Outcome) error {
	_, err := r.decideBy(ctx, a, cost, o)
	return err
}

// decideBy is decide for those who need what is kept beside the rules.
func (r *rules) decideBy(ctx context.Context, a rule.Attributes, cost int64, o *rule.Outcome) (*version, error) {
	v := r.current.Load()
	if err := v.set.DecideInto(ctx, r.store, a, cost, o); err != nil {
		return v, err
	}
	v.count(o)
	return v, nil
}
