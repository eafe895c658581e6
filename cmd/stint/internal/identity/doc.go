// Package identity finds out who the client of a request is, by the settings of stint
// serve: where requests have their API keys, and which keys verify their tokens.
//
// The server makes one [httplimit.Identity] of the settings, and every surface uses it:
// the gateway, forward auth and Envoy's authorization service read requests by it, and
// [Attributes] does so for checks, whose callers send the attributes of a request.
//
// The package promises that no token gives a claim unless a key of the operator verifies
// it, that an endpoint of keys that is slow, huge or dead bounds what it costs (time,
// bytes and requests to it), and that keys stay in force until newer ones were read whole.
package identity
