// Package postgresstoretest runs the contract of a store on postgresstore. It is not in the
// module of postgresstore: users of that module would then require package storetest and
// its dependencies.
package postgresstoretest
