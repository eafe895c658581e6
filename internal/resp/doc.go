// Package resp serves rate limits over the Redis protocol: whoever has a Redis
// client has a client of Stint, and whoever used the module redis-cell changes
// an address.
//
// [Server] answers CL.THROTTLE from any [stint.Store], and beside it what
// clients send when they connect, in RESP2 and RESP3. Commands that arrive
// together are decided in one call of the store and answered in one write, in
// their order. A decision takes no memory of its own.
//
// It promises bounds: on connections, on the length of a command, on the time
// that a connection may be idle, that a command may take to arrive and that
// answers may take to leave. What a client sends ends its own connection at
// worst.
package resp
