// Package adminapi lets operators see and change the rules of a running
// server over HTTP.
//
// Use it where a server has a [ruleset.Keeper]: the handler that [New] returns
// reads, validates and publishes whole sets, edits single rules, tiers,
// overrides and list entries within the text of the set, shows what was
// changed by whom and takes it back, and changes the state of single keys.
//
// It promises that a change is published whole or not at all, that it is in
// force on this node once it is answered, that with If-Match nobody overwrites
// what they have not seen, and that every change is on record with who, when,
// what and why.
package adminapi
