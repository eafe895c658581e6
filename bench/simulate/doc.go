// Package simulate plays incidents in virtual time. Its clients and servers use the
// packages of resilience as programs do, and its clock advances only when every task
// waits.
//
// Use it to measure what no test of one package shows: the load of a thousand clients on
// a server. Package bench/pictures draws the results.
//
// It promises that runs of one scenario with one seed give the same numbers: tasks run
// one at a time, and all randomness comes from the seed.
package simulate
