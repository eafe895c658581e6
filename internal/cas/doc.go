// Package cas is a [stint.Store] over any server that can compare and swap.
//
// A [Backend] reads items and writes an item if its version is still the one that was
// read. [Store] does the rest: it decides in Go, in a bounded loop of load, decide and swap,
// and so a backend holds nothing of limits.
//
// A package of a backend has a type of its own around [Store], options and a URL, as
// package redisstore does.
package cas
