// Package remotetest holds the tests of remotestore against this program's server.
package remotetest
