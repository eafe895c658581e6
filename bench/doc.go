// Bench puts Stint beside the other rate limiters that Go programs embed, in
// memory and over Redis, in one run and under the same load.
//
// Use it to see whether a change made a check slower, a key larger or a pause
// longer, and to decide whether Stint is worth its place in a program. Run
// `make bench` in the folder above, or `go run . -help` here for the parts.
//
// It promises a fair race: every limiter gets the same keys in the same order
// through its public interface, reads its own clock, admits every request
// (the path that writes), and is checked to limit at all before it is timed.
// Slices of about 100 ms alternate between the limiters, so that what else
// the machine does falls on all of them, and what is told is the median over
// rounds of the ratio within each round. The garbage collector rests during
// a slice, which favours limiters that allocate. It is a module of its own so
// that no user of Stint downloads its rivals.
package main
