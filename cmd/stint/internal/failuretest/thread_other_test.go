//go:build !linux

package failuretest

// threadNow returns nothing: only Linux reports the usage of one thread.
func threadNow() thread { return thread{} }
