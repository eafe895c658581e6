package stint

import (
	"context"
	"reflect"
	"slices"
	"time"
)

// Observer sees what limiters, stores and clients do, for metrics and traces. Packages
// contrib/stintprom and contrib/stintotel have one for Prometheus and one for
// OpenTelemetry. Pass it to [Limiter.WithObserver], [ObserveStore], and the options of
// packages guard, redisstore, remotestore and resilience/client. [Observers] combines
// several.
//
// Both methods are called by many goroutines at once, and in the middle of an
// operation: a slow observer delays the operation by the time that it takes. A panic is
// not caught. It reaches the caller of the limiter, store or client, which stays
// usable; in a goroutine that a store runs for several callers it ends the program.
//
// An event never has a key, because keys tell who the callers are.
type Observer interface {
	// Start is called when an operation begins: a decision, a store call, a request or
	// an attempt. It returns the context in which the operation runs, which is ctx
	// itself or one derived from it, as a tracer derives one with its span. Of the
	// event, only the fields that are known in advance are set.
	Start(ctx context.Context, e Event) context.Context

	// Observe is called with each complete event: once for each call of Start, with the
	// context that Start returned, and once for each event that takes no time. It is
	// not called for an operation that panics.
	Observe(ctx context.Context, e Event)
}

// EventKind is what an [Event] is about.
type EventKind uint8

// The kinds of events.
const (
	// EventDecision is a call of a limiter. Name is that of the limiter; of a
	// [JointLimiter], the names of its limiters with "+" between them.
	EventDecision EventKind = iota
	// EventStoreCall is a call to a store. Name says who observed it: the name given
	// to [ObserveStore]; "guard" for a call by the guard to its store; "redisstore" or
	// "remotestore" for a round trip to a server, with the claims of one caller or
	// several.
	EventStoreCall
	// EventBreaker is a change of state of the circuit breaker of a guarded store. It
	// takes no time and has no context. The lock of the breaker is held: the observer
	// must not call the store.
	EventBreaker
	// EventRequest is a call of a client, with all its attempts. Name is that of the
	// dependency, for this and the following kinds.
	EventRequest
	// EventAttempt is an attempt that was sent. An attempt that finds no time left when
	// it is sent begins as an EventAttempt and ends as an EventRefusal.
	EventAttempt
	// EventRefusal is an attempt that a part of the client refused. It takes no time.
	EventRefusal
	// EventRetry is a decision for or against a retry, after an attempt that failed. It
	// takes no time and has no context.
	EventRetry
)

// String returns the kind in lower case, such as "decision".
func (k EventKind) String() string {
	return nameOf("event", []string{"decision", "store call", "breaker", "request", "attempt", "refusal", "retry"}, k)
}

// Event is something that a limiter, a store or a client did. Fields that a kind of
// event does not have are zero.
type Event struct {
	Kind EventKind

	// Name is what the program calls the limiter, the store or the dependency.
	Name string

	// Result is how the event ended, in one word of a small set:
	//
	//   - EventDecision: "allowed" or "denied" by the store; "degraded_allowed" or
	//     "degraded_denied" by the failure policy; "unavailable" (denied because the
	//     store failed); or the [Error.KindName] of Err
	//   - EventStoreCall: "ok", or the KindName of the first error
	//   - EventBreaker: the new state, such as "open"
	//   - EventRequest and EventAttempt: "1xx" to "5xx" (429 is "429") or a gRPC code,
	//     "error", "timeout", "canceled"; of a request also "refused"
	//   - EventRefusal: the part that refused, such as "breaker"
	//   - EventRetry: "retry", or why there is none, such as "budget_used_up"
	Result string

	// Took is how long the operation took; of EventRetry, how long the client waits
	// before the next attempt. Waits of a limiter are measured by the limiter's clock.
	Took time.Duration

	// Err is the error of the operation; of EventStoreCall it may be a
	// [*GroupsError].
	Err error

	// Op is what a limiter was asked for: "take", "peek", "refund", "reset" or "wait".
	// A wait is one event, whatever its number of attempts.
	Op string
	// Cost is the number of units of a decision.
	Cost int64
	// Limit is the limit that bound the decision, as [Combine] chooses it. It is the
	// zero Limit after an error, and after a wait for several limits.
	Limit Limit
	// Decision is the decision; the zero Decision after an error.
	Decision Decision

	// Shard is the server that a store call or a breaker is for: "" in a store of one
	// server, and for a call to several servers.
	Shard string
	// Claims is the number of claims of a store call.
	Claims int

	// From and Reason are the state before a change of a breaker, and why it changed.
	From, Reason string

	// Attempt is the number of an attempt, a refusal or a retry's failed attempt, from
	// 1; of EventRequest, the number of attempts.
	Attempt int
}

// Observers returns an observer that passes every event to each of the given ones, in
// their order. Nil observers are left out; without any other it returns nil.
func Observers(list ...Observer) Observer {
	var all []Observer
	for _, o := range list {
		if v := reflect.ValueOf(o); v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
			all = append(all, o)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &observers{all}
}

// addObserver adds an observer to those of a joint limiter, unless it is among them. Of
// the result of [Observers], it adds the observers that this result combines.
func addObserver(all []Observer, o Observer) []Observer {
	if several, ok := o.(*observers); ok {
		for _, one := range several.list {
			all = addObserver(all, one)
		}
		return all
	}
	if slices.ContainsFunc(all, func(known Observer) bool { return same(known, o) }) {
		return all
	}
	return append(all, o)
}

type observers struct{ list []Observer }

// Start implements [Observer].
func (all *observers) Start(ctx context.Context, e Event) context.Context {
	for _, o := range all.list { // a few, each of which may add to the context
		ctx = o.Start(ctx, e) //nolint:fatcontext // see above
	}
	return ctx
}

// Observe implements [Observer].
func (all *observers) Observe(ctx context.Context, e Event) {
	for _, o := range all.list {
		o.Observe(ctx, e)
	}
}

// ObserveStore returns a store that reports every call to the given one as an
// [EventStoreCall] of the given name, such as "memory". A nil observer returns the store
// unchanged.
//
// Do not put it between a guard and a store of several servers, because it hides the
// servers, and guard.New refuses it: the guard and the store have options for an
// observer.
func ObserveStore(store Store, name string, o Observer) Store {
	if o = Observers(o); o == nil || missing(store) {
		return store
	}
	return &observedStore{store, name, o}
}

type observedStore struct {
	store    Store
	name     string
	observer Observer
}

// Unwrap returns the store that is observed.
func (s *observedStore) Unwrap() Store { return s.store }

// Take implements [Store].
func (s *observedStore) Take(ctx context.Context, c Claim) (Decision, error) {
	e := Event{Kind: EventStoreCall, Name: s.name, Claims: 1}
	ctx, start := s.observer.Start(ctx, e), time.Now()
	d, err := s.store.Take(ctx, c)
	e.EndStoreCall(time.Since(start), err)
	s.observer.Observe(ctx, e)
	return d, err
}

// TakeGroups implements [Store].
func (s *observedStore) TakeGroups(ctx context.Context, groups []Group, out []Decision) error {
	e := Event{Kind: EventStoreCall, Name: s.name, Claims: len(out)}
	ctx, start := s.observer.Start(ctx, e), time.Now()
	err := s.store.TakeGroups(ctx, groups, out)
	e.EndStoreCall(time.Since(start), err)
	s.observer.Observe(ctx, e)
	return err
}

// EndStoreCall completes an [EventStoreCall]: it sets Took, Err and Result. It is for
// authors of stores that report events of their own.
func (e *Event) EndStoreCall(took time.Duration, err error) {
	e.Took, e.Err, e.Result = took, err, "ok"
	if err != nil {
		e.Result = kindOf(err)
	}
}
