// Package ruleset keeps the rules of a node as versions that live elsewhere:
// in files, in memory, or, by the packages beside it, in Redis or PostgreSQL.
//
// A [Source] has the versions, a [Manager] the one that this node runs. The
// keeper takes each version whole or not at all: what has mistakes, is damaged,
// or is older than what the node runs is reported and not taken, so that the
// last good set goes on serving, also across a restart without the source.
// [Keeper.Publish] makes a new version of a change, if nobody else has made one
// in between.
package ruleset
