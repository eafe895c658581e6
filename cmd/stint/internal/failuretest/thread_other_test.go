//go:build !linux

package failuretest

// threadNow is what Linux alone tells.
func threadNow() thread { return thread{} }
