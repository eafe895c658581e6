// Package server is what stint serve runs: the listeners, and what answers on
// each of them.
//
// Use it from a command that has read its flags and chosen a store, or from a
// test that wants a whole server in its own process. [New] refuses a wrong
// configuration before anything is opened; [Server.Run] serves until its
// context ends and then drains.
//
// It promises that a request is decided by one rule set from its beginning to
// its end, that rules with a mistake never replace the last good ones, that no
// answer, log line or metric repeats a token, a password or a caller's key,
// and that every listener bounds the time and the bytes that one client can
// make it spend.
package server
