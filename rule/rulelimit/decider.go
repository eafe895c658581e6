package rulelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/storekit"
)

// Options configures a [Decider]. The zero value is ready for use.
type Options struct {
	// Identity says how the clients of requests are identified. The identity of a rule
	// file, which says where API keys are, replaces its APIKey. Rules are checked
	// against it, and [Decider.Middleware] uses it. A program with a middleware of its
	// own gives that the same Identity.
	Identity httplimit.Identity
	// Attributes are attributes that the program knows of its requests, by the names
	// under which rules read them: "tier" for the tier of a client, "user_id", or any
	// other. A function is called only for rules that read its attribute, concurrently,
	// and returns "" for a request without the attribute. An attribute of this map
	// replaces one that requests have by themselves.
	Attributes map[string]func(*http.Request) string
	// Cost returns the cost of a request under rules that configure none, at least 0.
	// Nil means 1.
	Cost func(*http.Request) int64
	// PathEncoding says how the program reads encoded separators in paths.
	PathEncoding rule.PathEncoding
	// Stores are the names of stores that rules may name beside the default one. Set it if
	// the store is one that sends each claim to the store that its limit names
	// ([stint.Limit.Store]); any other counts all rules itself.
	Stores []string
	// AllowUnsupported accepts rules that the decider applies only in part, with a
	// warning in the log for each: rules that read attributes which no request has, rules
	// that name unknown stores, and penalties. Set it for rule files that other programs share.
	AllowUnsupported bool
	// Observe, if not nil, is called with the outcome of every decision, shadow rules
	// included, before the request goes on. It is called concurrently and must not keep
	// its arguments.
	Observe func(r *httplimit.Request, cost int64, o *rule.Outcome)
	// Logger receives changes of the rules, their warnings, and the reasons why changed
	// files are not in force. Nil logs nothing.
	Logger *slog.Logger
}

// Decider is an [httplimit.Decider] that decides by the rule set in force. Make it with
// [New] or [Watch]; a nil or zero Decider answers every request with an error. It is safe for
// concurrent use.
//
// A request is decided by one rule set and by one call of the store. A request that no
// rule matches is allowed. The failure policies of rules are those of the store: package
// guard applies them. A store that returns an error itself makes Decide return that
// error.
type Decider struct {
	store     stint.Store
	options   Options
	scratches sync.Pool // of *scratch

	changing sync.Mutex // held while inForce changes
	inForce  atomic.Pointer[inForce]
}

// Status is the state of a decider's rules.
type Status struct {
	// Set is the rule set in force. Its Version is the one that the files state, which
	// may be empty.
	Set *rule.Set
	// Number counts the rule sets that have been in force, from 1.
	Number int
	// Since is when the set came into force.
	Since time.Time
	// Err is why the newest rules are not in force; nil if they are.
	Err error
}

type inForce struct {
	Status

	claims bool               // the rules read claims of tokens
	apiKey []httplimit.Source // the sources that the rules name; nil: those of the identity
}

// New returns a decider by a rule set that store counts for. [Decider.Use] replaces the
// set. The error says which part of the set or of the options is not supported.
func New(set *rule.Set, store stint.Store, o Options) (*Decider, error) {
	d, err := newDecider(store, o)
	if err != nil {
		return nil, err
	}
	if err := d.Use(set); err != nil {
		return nil, err
	}
	return d, nil
}

func newDecider(store stint.Store, o Options) (*Decider, error) {
	if storekit.Missing(store) {
		return nil, errors.New("rulelimit: no store (pass the store that counts)")
	}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	d := &Decider{store: store, options: o}
	d.scratches.New = func() any { return &scratch{attributes: attributes{own: o.Attributes}} }
	return d, nil
}

// Use puts another rule set in force. Requests that are being decided keep the previous
// one. A limit that both sets have keeps its counts. After an error, which
// [Decider.Status] then reports too, the previous set stays in force. On a decider of
// [Watch], the set stays until the files change.
func (d *Decider) Use(set *rule.Set) error {
	if !d.made() {
		return errNotMade
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	return d.useLocked(set)
}

func (d *Decider) useLocked(set *rule.Set) error {
	if err := d.options.check(set); err != nil {
		d.rejectLocked(err)
		return err
	}
	now := &inForce{Status: Status{Set: set.WithPathEncoding(d.options.PathEncoding), Number: d.Status().Number + 1, Since: time.Now()}}
	now.claims, now.apiKey = d.options.readsClaims(set), apiKey(set)
	d.inForce.Store(now)
	log := d.options.Logger
	log.Info("rules in force", "number", now.Number, "version", set.Version(), "rules", len(set.Rules()))
	if len(set.Rules()) == 0 {
		log.Warn("rules: the set is empty, so nothing is limited")
	}
	for _, w := range set.Warnings() {
		log.Warn("rules: " + w.Error())
	}
	return nil
}

// rejectLocked records why newer rules are not in force, or, with a nil error, that there
// are none.
func (d *Decider) rejectLocked(err error) {
	if old := d.inForce.Load(); old != nil {
		now := *old
		now.Err = err
		d.inForce.Store(&now)
	}
}

// Status returns the state of the rules.
func (d *Decider) Status() Status {
	if now := d.current(); now != nil {
		return now.Status
	}
	return Status{}
}

// current returns the rules in force; nil for a decider that New and Watch did not make.
func (d *Decider) current() *inForce {
	if !d.made() {
		return nil
	}
	return d.inForce.Load()
}

func (d *Decider) made() bool { return d != nil && d.store != nil }

var errNotMade = &stint.Error{Problem: "rulelimit: the decider is nil or a zero value", Mend: "make it with New or Watch, and look at its error"}

// Middleware returns a middleware that asks d. It is [httplimit.New] with the Identity of
// the decider's options. An Identity in o is an error: the rules are not checked against it.
func (d *Decider) Middleware(o httplimit.Options) (*httplimit.Middleware, error) {
	if !d.made() {
		return nil, errNotMade
	}
	if !reflect.ValueOf(o.Identity).IsZero() {
		return nil, errors.New("rulelimit: the middleware has an Identity of its own (set it in the Options of the decider)")
	}
	o.Identity = d.options.Identity
	return httplimit.New(d, o)
}

// scratch is the memory of one decision. A pool recycles it.
type scratch struct {
	attributes attributes
	outcome    rule.Outcome
}

// Decide implements [httplimit.Decider].
func (d *Decider) Decide(ctx context.Context, r *httplimit.Request) (httplimit.Answer, error) {
	none := httplimit.Answer{Binding: -1}
	now := d.current()
	if now == nil {
		return none, errNotMade
	}
	if now.claims && r.Identity().Tokens == nil {
		return none, &stint.Error{Problem: "rules read claims, and no token can be verified", Mend: "give the middleware the Identity of the decider"}
	}
	if now.apiKey != nil {
		r.SetAPIKey(now.apiKey)
	}
	w := d.scratches.Get().(*scratch) //nolint:forcetypeassert // the pool holds nothing else
	defer d.release(w)
	var a rule.Attributes = r
	if len(d.options.Attributes) > 0 {
		w.attributes.request = r
		a = &w.attributes
	}
	cost := int64(1)
	if d.options.Cost != nil {
		cost = d.options.Cost(r.Request)
	}
	if err := now.Set.DecideInto(ctx, d.store, a, cost, &w.outcome); err != nil {
		return none, err
	}
	if d.options.Observe != nil {
		d.options.Observe(r, cost, &w.outcome)
	}
	return answerOf(&w.outcome), nil
}

// release returns the memory to the pool, without the data of the request.
func (d *Decider) release(w *scratch) {
	clear(w.outcome.Hits)
	w.outcome = rule.Outcome{Hits: w.outcome.Hits[:0]}
	w.attributes.request = nil
	d.scratches.Put(w)
}

// attributes are those of a request and of the program.
type attributes struct {
	request *httplimit.Request
	own     map[string]func(*http.Request) string
}

// Attribute implements [rule.Attributes].
func (a *attributes) Attribute(name string) (string, bool) {
	if value, own := a.own[name]; own {
		text := value(a.request.Request)
		return text, text != ""
	}
	return a.request.Attribute(name)
}

// Refusal implements [rule.Refuser].
func (a *attributes) Refusal(name string) error {
	if _, own := a.own[name]; own {
		return nil
	}
	return a.request.Refusal(name)
}

// setDefaults fills in the defaults, and returns an error for options that no rule set
// could be used with.
func (o *Options) setDefaults() error {
	own := make(map[string]func(*http.Request) string, len(o.Attributes))
	for name, value := range o.Attributes {
		if value == nil || name == "" {
			return fmt.Errorf("rulelimit: Attributes: %q needs a name and a function", name)
		}
		own[rule.AttributeName(name)] = value
	}
	o.Attributes = own
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := o.Identity.Validate(); err != nil {
		return fmt.Errorf("rulelimit: Identity: %w", err)
	}
	return nil
}
