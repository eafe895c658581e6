// Package stintpolicy is a policy of failsafe-go that limits by a
// [stint.Limiter]: in memory, or shared by many processes through a store.
//
// Use it among the policies of an executor, in the place of failsafe-go's own
// rate limiter. Inside of a retry policy every attempt counts; outside of it,
// every execution. It is a module of its own, so that whoever does not use
// failsafe-go does not download it.
//
// It promises that an execution which is denied does not run, charges nothing
// and fails with a [*DeniedError], and that one which gives up waiting gives
// back what it was charged. A place in the queue of a leaky bucket cannot be
// given back: there, whoever gives up leaves a gap, and so does whoever is
// denied because others joined the queue in the same moment.
package stintpolicy
