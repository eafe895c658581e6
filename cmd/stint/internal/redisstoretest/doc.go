// Package redisstoretest runs the contract of a store on redisstore. It is not in the
// module of redisstore, whose users would then require package storetest and what that
// requires.
package redisstoretest
