// Package remotestore is a [stint.Store] whose states live in a Stint server:
// every program that asks the same server decides alike.
//
// Use it where several processes share limits and one of them, or a server of
// its own, can keep the counts; where they must outlive that server, have it
// keep them in Redis and ask it all the same. It speaks stint.v1 over gRPC, to
// the listener --grpc of stint serve.
//
// It promises what every store does (package storetest judges it over the
// wire), and that nothing is sent twice: a claim whose outcome is unknown is an
// error. Put a guard around it (package guard) to decide while the server
// cannot be reached.
package remotestore
