// Package grpcapi serves stint.v1, Stint's own protocol over gRPC. It has checks,
// which rules decide; takes, under limits that the caller sends; batches of either;
// and a stream of both.
//
// [Service] answers from any [stint.Store] and any rule set. Each message becomes one
// call of the store, so a batch costs one round trip to the store.
//
// The package bounds the claims and limits of a call, the unanswered requests of a
// stream, and the time in which a client must read an answer. A denial is an answer.
// An error is a status that says what is wrong, where, and how to fix it. Details of
// internal failures go to the log and not to the client.
package grpcapi
