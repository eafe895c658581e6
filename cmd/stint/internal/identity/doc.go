// Package identity finds out who the client of a request is, by the settings of stint
// serve: where requests have their API keys, and which keys verify their tokens.
//
// The server makes one [httplimit.Identity] of the settings, and every surface uses it:
// the gateway, forward auth and Envoy's authorization service read requests by it, and
// [Attributes] does so for checks, whose callers send the attributes of a request.
//
// The package makes three promises. A token gives a claim only if a key of the operator
// verifies it. A key endpoint that is slow, huge or dead costs a bounded number of seconds,
// bytes and requests. Keys stay in force until newer keys have been read completely.
package identity
