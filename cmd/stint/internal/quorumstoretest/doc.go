// Package quorumstoretest runs the contract of a store on quorumstore. It is not in the
// module of quorumstore: users of that module would then require package storetest and its
// dependencies.
package quorumstoretest
