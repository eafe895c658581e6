// Package grpclimit puts rate limits in front of grpc-go services, and before the
// calls that a program sends.
//
// A server that defines its limits in code needs only [Limit]: five lines count calls
// by client address. A server that decides in another way, by a rule set for example,
// gives its own [Decider] to [New]. A gRPC call is a POST over HTTP/2, so calls can use everything in
// package httplimit that identifies clients (identities, tokens, trusted proxies) and
// that decides requests ([HTTP]). [Client] delays the calls that a program sends, or
// refuses them.
//
// The package promises the following. The peer of the connection is the client, unless
// it is a trusted proxy that names another. A denied call never reaches the handler.
// Its status is RESOURCE_EXHAUSTED with RetryInfo and QuotaFailure, in a trailers-only
// response with grpc-retry-pushback-ms. Clients with a retry policy therefore retry at
// the right time, or not at all when no wait helps (gRFC A6).
package grpclimit
