// Package rulecase tests rules: it reads files of cases, each a series of requests with the
// decisions that are expected of them, and decides the requests in virtual time.
//
// Use it to hold a rule set to what its authors promise. Every case starts without state, on
// a store of its own whose clock is the time of the request. A run reads no clock of its own,
// so it takes as long for a year as for a second, and two runs have the same result.
package rulecase

import (
	"time"

	"github.com/stintdev/stint/rule"
)

// The bounds of a file.
const (
	MaxCases    = 10_000
	MaxRequests = 1_000_000 // of one case
)

// File is a file of cases for one rule set.
type File struct {
	Path  string
	Set   *rule.Set
	Cases []Case
}

// Case is one test.
type Case struct {
	Name   string
	Line   int // of the name in the file
	series []series
}

// series are equal requests at equal distances.
type series struct {
	at         int64 // time of the first, in µs since the Unix epoch
	every      time.Duration
	times      int
	cost       int64
	attributes rule.Map
	want       expectation
}

// expectation is what a series must be answered. A nil pointer expects nothing.
type expectation struct {
	line, column    int
	each            *bool  // the decision on every request
	allowed, denied *int   // numbers of requests
	last            answer // of the last request of the series
}

// answer has the expected fields of one decision.
type answer struct {
	allowed          *bool
	rule             *string
	list             *string
	limit, remaining *int64
	retryAfter       *time.Duration
	resetAfter       *time.Duration
	delay            *time.Duration
	shadow           *[]string // rules in shadow mode that would have denied
}

// Result is the result of one case.
type Result struct {
	Name     string
	Line     int
	Requests int
	Failures []Failure // none: the case passed
}

// Failure is an expectation that the decisions did not meet.
type Failure struct {
	Line, Column int           // of the expectation in the file
	After        time.Duration // time of the request, since the start of the case
	What         string        // what differs, as "remaining is 3, want 4"
}
