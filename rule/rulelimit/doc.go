// Package rulelimit decides HTTP requests by rule files, as the server of Stint does.
//
// A [Decider] joins a [rule.Set] to a store and is an [httplimit.Decider]: everything
// that rule files say holds for the requests of a middleware, from tiers, lists and
// shadow rules to the dialect of the response headers. [Watch] makes a decider that
// reads its rules again when the files change; [New] makes one of rules that the
// program has. For gRPC, grpclimit.HTTP makes a decider of calls from it.
//
// Use it in a program whose operators write the limits. A program that knows its own
// limits needs only package httplimit.
//
// The package refuses rules that would not limit what they say: those that read an
// attribute that no request has, and those with a penalty, which only the server
// applies. A rule set that is refused or has mistakes never replaces the one in force.
package rulelimit
