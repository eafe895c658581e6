// Package stint limits how often something may happen.
//
// A [Limit] says what is allowed ("100 a minute, burst 20"). A [Store] keeps
// what each key has used and decides claims on it, each in one atomic step. A
// [Limiter] joins the two for the common case: one kind of request, one or
// more limits, one answer.
//
// Use the package with the memory store of [NewMemory] to limit requests
// inside one Go process. The stores, middleware and servers in the folders
// below share its types.
//
// The package promises exact answers. Decisions equal rational arithmetic on
// the definitions of each [Algorithm], to the microsecond. A denied request
// changes nothing. Waiting exactly [Decision.RetryAfter] succeeds, and one
// microsecond less fails. Claims decided together are charged all or none.
//
// Time is counted in whole microseconds since the Unix epoch.
package stint
