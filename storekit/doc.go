// Package storekit is for authors of stores: programs that use a store do not need it.
//
// Use it to write a [stint.Store] over a database, or one that wraps another store. The
// guide docs/write-your-own-store.md shows both the steps and a complete store; package
// storetest tests the result.
//
// # A store over a database
//
// [Decide] makes the decisions of a store. It is a pure function: it takes groups, the
// stored values of their keys and the time, and returns decisions and the values to store.
// The store loads the values of [Keys], calls Decide, and saves the changes, all in one
// atomic step: under a lock, in a transaction, or by compare-and-swap with a retry. A
// value holds the states of all limits of one key, so most groups need a single value.
// [TakeOne] is the method Take of such a store, and [EachGroup] decides one group per
// atomic step.
//
// A store that takes the steps elsewhere, such as in a script on a server, or keeps
// states in a form of its own, uses the methods of [stint.Limit] instead: Numbers, Step,
// AppendState, DecodeState and Shape. [ScopeOf] says which limits share a state.
//
// # A store around another
//
// A store that wraps another has a method Unwrap; see [Wrapper] and [Layers].
// [PartErrors] reads the error of the store below, and [MapClaims] copies groups and
// changes their claims. A store that makes a check wait passes on when the check began:
// [WithBegun].
//
// # What a store can do beyond deciding
//
// A store may implement [Sharded] and [NodeCounter]. Package guard uses them.
package storekit
