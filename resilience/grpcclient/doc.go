// Package grpcclient is package client for grpc-go: interceptors that bound
// calls by a deadline, repeat them within a budget, and send each attempt
// through a bulkhead, a breaker and a limiter.
//
// Use one [Client] for each connection; every part can be left out. Over gRPC
// deadlines travel by themselves.
//
// It promises what package client does. What a part refuses has a status of
// gRPC and is a *client.RefusedError, too. Pushback and RetryInfo of a server
// are heeded. Streams are never repeated; each holds its place until gRPC lets
// go of it: it was read to its end, failed, its context ended or the connection
// was closed.
package grpcclient
