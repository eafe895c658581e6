// Package stint limits how often something may happen.
//
// # Limit, store, limiter
//
// A [Limit] says what is allowed: "100/m" in its short form for [ParseLimit], or
// a [Spec] with every number. A [Store] keeps what each key has used, and
// decides claims on it in one atomic step. A [Limiter] joins the two for one kind
// of request:
//
//	limit, err := stint.ParseLimit("100/m")
//	...
//	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "login", limit)
//	...
//	d, err := limiter.Allow(ctx, "user:42")
//
// The key names whose use is counted. The name of the limiter, "login", separates
// its counts from those of other limiters of the store. Limiters of one name share
// their counts, also across processes that share a store.
//
// # Answers
//
// The answer is a [Decision]. A denial is an answer too: [Decision.RetryAfter] is
// the exact time after which the same request is allowed. An error means that no
// decision could be made. It is an [*Error], whose code errors.Is and [CodeOf]
// find:
//
//	switch d, err := limiter.Allow(ctx, key); {
//	case errors.Is(err, stint.CodeInvalid): // the key is empty or too long
//	case err != nil: // the store failed
//	case !d.Allowed: // try again after d.RetryAfter
//	}
//
// [Limiter.AllowN] takes several units at once, [Limiter.Peek] takes none, and
// [Limiter.Reserve] takes units that may be refunded. [Limiter.Wait] blocks until
// the request is allowed, in the order of arrival, and fails at once if that would
// be after the deadline of its context.
//
// # Which limit
//
// A token bucket, the default, allows a burst and refills at a steady rate. [Spec]
// selects the others: windows, which count requests of the last minute or of the
// current one, quotas of calendar periods, and the leaky bucket, which delays
// requests instead of denying them. The document docs/choosing-an-algorithm.md
// compares them.
//
// A request can count under several limits: pass them all to [NewLimiter], which
// charges all of them or none. It can count under several keys, such as a user
// and a tenant: make a limiter for each, and [Join] them.
//
// # Which store
//
// [NewMemory] keeps counts in this process. Stores of other packages share them
// between processes: redisstore in Redis or Valkey, remotestore in a Stint server.
// Such stores can fail. The functions redisopen.Open and remoteopen.Open put package
// guard around them: it bounds the time of each call, and decides by a policy while the
// store fails. The default policy allows; [Limiter.With] sets another one. With also
// sets the consistency: package lease, around the guard, decides hot keys locally, from
// units fetched ahead. Package layered puts both around any store. Package storekit
// helps to write a store of your own, and storetest tests it.
//
// # Around a limiter
//
// Middleware for net/http is in package httplimit, interceptors for gRPC in
// grpclimit, and limits by rule files in rule/rulelimit. The packages below
// resilience serve the other side: clients that retry, slow down and give up.
//
// An [Observer] sees what limiters, stores and clients do: see
// [Limiter.WithObserver]. contrib/stintprom and contrib/stintotel export it to
// Prometheus and OpenTelemetry.
//
// The folder examples has small programs to copy, and docs/migrating.md shows how
// programs with other libraries become programs with this one.
//
// # Testing
//
// Under testing/synctest, everything in this package follows the fake time of the
// bubble, if the store is made inside it. Outside of it, [MemoryOptions.Clock] and
// [Limiter.WithClock] set clocks. The document docs/testing.md shows both.
//
// # What the package promises
//
// Answers are exact. Decisions equal rational arithmetic on the definitions of each
// [Algorithm], to the microsecond. A denied request changes nothing. Waiting exactly
// [Decision.RetryAfter] succeeds, and one microsecond less fails. Claims decided
// together are charged all or none. Time is counted in whole microseconds since the
// Unix epoch.
//
// A check in memory takes about 50 ns and allocates nothing. All types are safe for
// use by many goroutines at once unless their comment says otherwise. A nil or zero
// value of a type that has a constructor answers with an error, and does not panic.
package stint
