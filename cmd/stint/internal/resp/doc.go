// Package resp serves rate limits over the Redis protocol. Every Redis client works as
// a client of Stint, and a user of the module redis-cell changes only the address.
//
// [Server] answers CL.THROTTLE from any [stint.Store], and the commands that clients
// send when they connect, in RESP2 and RESP3. Commands that arrive together are
// decided by one call of the store and answered by one write, in order. A decision
// does not allocate.
//
// The package bounds the number of connections, the length of a command, the idle time
// of a connection, the time in which a command must arrive, and the time in which a
// client must read answers. Malformed input ends at most its own connection.
package resp
