// Package memcachedstoretest runs the contract of a store on memcachedstore. It is not in
// that package, because package storetest is a module of its own, with dependencies that
// the users of memcachedstore do not need.
package memcachedstoretest
