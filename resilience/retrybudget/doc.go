// Package retrybudget limits retries to a share of the requests, so that a failing
// server gets about a tenth more work from its clients, not several times
// its work.
//
// Use one [Budget] for each thing that can fail, shared by all who call it.
// Tell it of every request by [Budget.Request], and ask it before every retry,
// and before the wait for it, by [Budget.Retry]; package retry does both.
//
// It promises that whenever a retry is granted, the retries within the window,
// this one included, are at most Share × the requests within it + PerSecond ×
// its seconds, however many goroutines ask. What is within the window leaves it
// by tenths, up to a tenth early. So over any time the retries are at most
// Share × the requests in it and in the window before it + PerSecond × (that
// time + 1.1 windows). It has no goroutine and no timer, and neither
// allocates nor waits but for its lock.
//
// The design is that of Finagle's RetryBudget. A share of 10 % for each client
// is what Google's book "Site Reliability Engineering" has in chapter 21,
// "Handling Overload" (https://sre.google/sre-book/handling-overload/).
package retrybudget
