// Bench compares Stint with the other rate limiters that Go programs embed, in memory and
// over Redis, in one run and under the same load.
//
// Use it to see whether a change made a check slower, a key larger or a pause longer, and
// to decide whether to use Stint in a program. Run `make bench` in the folder above, or
// `go run . -help` here for the parts.
//
// It promises a fair race. Every limiter gets the same keys in the same order through its
// public interface, reads its own clock, admits every request (the path that writes), and
// is checked to limit correctly before it is timed. Slices of about 100 ms alternate
// between the limiters, so that other load on the machine affects all of them alike. The
// result is the median over rounds of the ratio within each round. The garbage collector
// is off during a slice, which favours limiters that allocate. Bench is a module of its
// own, so that no user of Stint downloads its rivals.
package main
