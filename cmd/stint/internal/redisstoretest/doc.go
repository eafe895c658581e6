// Package redisstoretest runs the contract of a store on redisstore. It is not in the
// module of redisstore: users of that module would then require package storetest and its
// dependencies.
package redisstoretest
