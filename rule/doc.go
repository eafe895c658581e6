// Package rule reads rule files and decides requests by them.
//
// A rule says which requests it counts (match), by whose identity, under
// which limits, and what happens when they exceed or the store fails. [Parse]
// and [Load] read rule files into a [Set]: whole, or not at all with every
// mistake listed. [Set.Decide] asks a request for the few attributes that its
// candidates need, makes the claims of every rule that matches, and takes
// them from a [stint.Store] as one atomic group.
//
// Use it where operators write the limits; a program that knows its own
// limits needs only a [stint.Limiter].
//
// It promises that a Set never changes and is safe for use by many
// goroutines, that two different identities never share a key, and that
// thousands of rules cost a request about as much as the few that could match
// it.
package rule
