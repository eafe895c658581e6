// Package grpclimit puts rate limits in front of grpc-go services, and before
// the calls that a program sends.
//
// [Limit] is all that a server with a limit of its own needs: five lines, and
// calls are counted by client address. [Server] is for whoever decides in
// another way, by a rule set for example. A gRPC call is a POST over HTTP/2,
// so that everything of package httplimit that reads a request (identities,
// tokens, trusted proxies) and everything that decides one ([HTTP]) serves
// calls as well. [Client] waits its turn before it sends, or refuses.
//
// It promises that the connection says who a client is unless a trusted proxy
// speaks; that a denied call never reaches the handler; and that its status is
// RESOURCE_EXHAUSTED with RetryInfo and QuotaFailure, sent alone with
// grpc-retry-pushback-ms, so that clients with a retry policy come back at the
// right time, or not at all when no wait helps (gRFC A6).
package grpclimit
