// Package dynamostoretest runs the contract of a store on dynamostore. It is not in the
// module of dynamostore: users of that module would then require package storetest and
// its dependencies.
package dynamostoretest
