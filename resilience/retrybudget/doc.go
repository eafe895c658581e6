// Package retrybudget limits retries to a share of the requests, so that a failing server
// gets about a tenth more work from its clients and not several times its work.
//
// Use one [Budget], made by [New], for each dependency, shared by all its callers. Call
// [Budget.Request] for every request, and [Budget.Retry] before every retry and before the
// wait for it. Package retry does both.
//
// It promises that whenever a retry is granted, the retries within the window, this one
// included, are at most Share × the requests within it + PerSecond × its seconds,
// whatever the number of goroutines. Counts leave the window by tenths, up to a tenth
// early. Over any time, therefore, the retries are at most Share × the requests in it and
// in the window before it + PerSecond × (that time + 1.1 windows). It has no goroutine
// and no timer, does not allocate, and waits only for its lock.
//
// The design is that of Finagle's RetryBudget. The share of 10 % for each client is from
// Google's book "Site Reliability Engineering", chapter 21, "Handling Overload"
// (https://sre.google/sre-book/handling-overload/).
package retrybudget
