// Package simulate plays incidents in virtual time: clients and servers that
// use the packages of resilience as programs do, and a clock that moves only
// when everyone waits.
//
// Use it to measure what no test of one package shows: what a thousand clients
// do to a server together. It draws nothing; bench/pictures does.
//
// It promises that a run of the same scenario and seed gives the same numbers:
// one task runs at a time, and all chance comes from the seed.
package simulate
