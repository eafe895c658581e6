// Package layered assembles a store for many nodes from its three layers:
//
//   - the base store, which the nodes share, such as a client of Redis;
//   - a guard (package guard), which decides while the base store fails;
//   - leases (package lease), which decide hot keys without a round trip.
//
// Use [New] around a base store of your own. Programs that count in Redis or in a Stint
// server call redisopen.Open or remoteopen.Open, which return a [Store] of this package.
// The memory store of package stint needs no layers: it cannot fail, and its calls need
// no round trip.
//
// The package promises that the layers are in the only order that works, that a
// [Store] with zero [Options] decides as the store of stint serve does, and that one
// call of [Store.Close] closes the layers from the top to the base.
package layered
