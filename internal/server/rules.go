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
	store   stint.Store
	metrics *metrics
	log     *slog.Logger
	watcher *ruleset.Watcher // nil when the rules are built in
	current atomic.Pointer[version]
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
	r := &rules{store: store, metrics: m, log: log}
	if path == "" {
		log.Info("no --rules given: serving the built-in rules")
		r.install(rule.Builtin(), 1)
		return r, nil
	}
	r.watcher = ruleset.New(path, r.onSet, r.onError)
	set, err := r.watcher.Load()
	if err != nil {
		return nil, err
	}
	r.install(set, 1)
	r.warn(set)
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
	if len(set.Rules()) == 0 {
		r.log.Warn("rules: there is none, so that nothing is limited")
	}
	for _, w := range set.Warnings() {
		r.log.Warn("rules: " + w.Error())
	}
}

// onSet is called by the watcher with rules that it has read.
func (r *rules) onSet(set *rule.Set) {
	number := r.current.Load().number + 1
	r.install(set, number)
	r.warn(set)
	r.metrics.reloads.WithLabelValues("ok").Inc()
	r.log.Info("rules reloaded", "version", number, "rules", len(set.Rules()))
}

// onError is called by the watcher when there are no rules to be had.
func (r *rules) onError(err error) {
	r.metrics.reloads.WithLabelValues("error").Inc()
	r.log.Error("rules kept", errorAttr(err))
}

// follow reads the rules again whenever they change, until ctx ends.
func (r *rules) follow(ctx context.Context) {
	if r.watcher != nil {
		r.watcher.Run(ctx)
	}
}

// following is closed when changes of the rules from now on are noticed.
func (r *rules) following() <-chan struct{} {
	if r.watcher == nil {
		never := make(chan struct{}) // there is nothing to notice
		close(never)
		return never
	}
	return r.watcher.Following()
}

// reload reads the rules again now.
func (r *rules) reload() {
	if r.watcher == nil {
		r.log.Info("nothing to reload: the rules are built in")
		return
	}
	r.watcher.Reload()
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
