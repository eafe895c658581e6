// Package jwtverify verifies JSON Web Tokens for package httplimit, so that their claims
// can identify clients.
//
// Make a [Verifier] with [New], from keys or a function that fetches them, and set it as
// Tokens of an httplimit.Identity.
//
// It promises that the key decides how a token is verified: a token cannot choose its
// algorithm, bring a key of its own, or name a place where keys are. It is a module of
// its own, so that only programs that verify tokens download a JWT library.
package jwtverify
