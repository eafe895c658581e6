// Package impact says what a change of the rules would do to the callers of the
// last minutes.
//
// A [Sample] hears of every decision and keeps a bounded number of them;
// [Sample.Replay] decides those again by other rules. Use it before rules are
// published: a mistake that no parser can see, such as a limit without a zero,
// shows in who would be turned away.
//
// It promises that a decision which is not kept costs a hash and no
// allocation, that of a caller who is kept every request is, while the sample
// has room, so that rates are true, and that nothing of it is written anywhere:
// it is memory, and answers shorten keys.
package impact
