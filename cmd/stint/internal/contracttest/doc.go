// Package contracttest runs the contract of a store on internal/cas, and on each store that
// is made of it. The tests are not beside those packages: users of a store would then
// require package storetest and its dependencies.
package contracttest
