// Package failuretest is the tests of what Stint does when its servers fail:
// guard around redisstore, as nodes run them, over real servers that are
// killed, frozen, cut off and replaced while checks go on.
//
// Each test prints its figures. Times are those of a check as its caller sees
// them, from a load that leaves the processors mostly idle, so that they judge
// the store and not the scheduler. The longest check is what is asserted, and
// on a busy host that is one which the host held up: what it demonstrably took
// (the process did not run, or a check that never waits lost its processor) is
// left out, and shown beside. A case that misses a bar of time all the same is
// measured again from the start, five times at most, until it has met its bars
// more often than not: what the host does comes at any moment, and a defect
// comes back. Counts must be right every time.
package failuretest
