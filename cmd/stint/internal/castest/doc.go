// Package castest runs the contract of a store on internal/cas. It is not beside that
// package: the modules of stores that import internal/cas would then require package
// storetest and its dependencies.
package castest
