// Package envoyrls is Envoy's rate limit service: it reads the configuration
// files of envoyproxy/ratelimit as they are, follows them as they change, and
// answers ShouldRateLimit over a [stint.Store].
//
// What it promises: one status a descriptor, in their order; a descriptor that
// no limit applies to is OK; the descriptors of one request are charged all or
// none; no two descriptors share a counter unless their configuration says so.
// A file with a mistake never takes another one down: its last good version
// serves on.
package envoyrls
