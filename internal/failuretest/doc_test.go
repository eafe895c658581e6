// Package failuretest is the tests of what Stint does when its servers fail:
// guard around redisstore, as nodes run them, over real servers that are
// killed, frozen, cut off and replaced while checks go on.
//
// Each test prints its figures. Times are those of a check as its caller sees
// them, from a load that leaves the processors mostly idle, so that they judge
// the store and not the scheduler. What a busy host adds can still come at any
// moment, but does not come back at the same one: a case that misses a bar of
// time is measured again from the start, twice at most. Counts must be right
// every time.
package failuretest
