// Package grpcapi serves Stint's own protocol over gRPC, stint.v1: checks that
// rules decide, takes under limits that the caller brings, batches of either,
// and a stream of both.
//
// [Service] answers from any [stint.Store] and any rule set. What a message
// carries becomes one call of the store, so that a batch costs one round trip
// wherever the store is.
//
// It promises bounds: on the claims and limits of a call, on what a stream
// holds that was not yet answered, and on the time that a client may take to
// read an answer. A denial is an answer; an error is a status that says what is
// wrong, where, and the mend. What fails inside is told to the log, not to the
// client.
package grpcapi
