// Package ruleset manages the rules of a node as numbered versions, which are
// stored in files, in memory or, by the sibling packages, in Redis or
// PostgreSQL.
//
// A [Source] stores the versions. A [Manager] runs one of them on this node and
// replaces it when the source has a newer one. The manager accepts a version
// whole or not at all. A version that has mistakes, is damaged, or is older
// than the running one is reported and rejected. The last good version then
// stays in force, even across a restart without the source. [Manager.Publish]
// turns a change into a new version, unless another version was published in
// between.
//
// [Manager.Run] (loop.go) is how a node learns of a new version. It checks the source
// whenever the source's Watch method announces one: for files in files.go, for Redis in
// cmd/stint/internal/redisrules/watch.go, for PostgreSQL in
// cmd/stint/internal/pgrules/watch.go.
package ruleset
