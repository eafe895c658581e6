// Package failuretest tests Stint while its servers fail: guard around redisstore, as
// nodes run them, with real servers that are killed, frozen, partitioned and replaced
// under load.
//
// Each test prints its figures. A time is that of a check as its caller observes it.
// The load leaves the processors mostly idle, so that times measure the store and not
// the scheduler.
//
// The tests assert the longest check. For an open breaker they also assert the time of 99
// of 100 checks: an open breaker never waits for a server, so its longest check is one
// that the host delayed. On a busy host the longest check of all is often such a check,
// too. A delay that demonstrably comes from the host (the process did not run, or a check
// that never waits lost its processor) is therefore subtracted and printed separately. A
// case that still exceeds a bound is measured again, at most five times, until it has met
// its bounds more often than not: delays of the host are random, and a defect recurs.
// Counts must be right every time.
package failuretest
