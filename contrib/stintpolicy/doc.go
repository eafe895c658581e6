// Package stintpolicy is a policy for failsafe-go that limits executions with a
// [stint.Limiter]: in memory, or shared by many processes through a store.
//
// Use a [Policy], made by [New], among the policies of an executor, instead of
// failsafe-go's own rate limiter.
// Inside a retry policy it counts every attempt; outside of one, every execution. It is a
// module of its own, so that only users of failsafe-go download it.
//
// It promises that a denied execution does not run, charges nothing and fails with a
// [*DeniedError], and that an execution that gives up waiting refunds its charge. A place
// in the queue of a leaky bucket cannot be refunded. There, an execution that gives up
// leaves a gap, and so does one that is denied because others joined the queue at the
// same moment.
//
// An execution that cannot be checked because the store fails ends with a [*stint.Error]:
// a server answers it with 503, and a denial with 429.
package stintpolicy
