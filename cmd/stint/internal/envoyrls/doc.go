// Package envoyrls is Envoy's rate limit service. It reads the configuration files of
// envoyproxy/ratelimit unchanged, watches them for changes, and answers
// ShouldRateLimit over a [stint.Store].
//
// The package promises the following. A response has one status for each descriptor,
// in their order. A descriptor without a limit is OK. The descriptors of one request
// are charged all or none. Two descriptors share a counter only if their configuration
// says so. A mistake in one file does not affect other files, and the last good
// version of that file stays in force.
package envoyrls
