// Package grpcclient is package client for grpc-go: interceptors that bound calls by a
// deadline, retry them within a budget, and send each attempt through a bulkhead, a
// circuit breaker and a limiter.
//
// Use one [Client], made by [New], for each connection; every part is optional. gRPC
// itself carries deadlines.
//
// It promises what package client promises. A refusal has a gRPC status and is also a
// *client.RefusedError. A server's pushback and RetryInfo are respected. Streams are
// never retried. Each stream holds its place until gRPC finishes it: it was read to its
// end, it failed, its context ended or the connection was closed.
package grpcclient
