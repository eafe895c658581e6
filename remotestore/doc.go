// Package remotestore is a [stint.Store] that keeps its states in a Stint server. All
// programs that use the same server share their limits.
//
// Use it where several processes share limits and a Stint server can keep the counts.
// Where the counts must survive a restart of that server, let the server keep them in
// Redis. The protocol is stint.v1 over gRPC; the server listens for it at --grpc of
// stint serve.
//
// The package promises what every store promises; package storetest checks it over the
// wire. It never sends a claim twice: a claim whose outcome is unknown is an error.
// Wrap it in a guard (package guard) to decide while the server cannot be reached.
package remotestore
