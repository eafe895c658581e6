// Package adminapi lets operators see and change the rules of a running server over HTTP.
//
// Use it where a server has a [ruleset.Manager]: the handler that [New] returns reads,
// validates and publishes whole rule sets, edits single rules, tiers, overrides and list
// entries within the text of the set, shows and rolls back changes, and changes the state
// of single keys.
//
// It promises that a change is published as a whole or not at all, that it is in force on
// this node when the answer is sent, that If-Match prevents overwriting unseen changes,
// and that every change is recorded with its author, time, content and reason.
package adminapi
