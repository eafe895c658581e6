// Package groupcall has what every store needs for a call of TakeGroups: the errors of its
// parts, and the check of the length of out.
//
// The memory store and package storekit both use it. It has no types of claims, because the
// root package imports it; storekit exports it for the types of the root.
package groupcall

import "fmt"

// Errors are the errors of the parts of a call. It is nil as long as no part failed, so
// that a call without errors allocates nothing.
type Errors []error

// Set records the error of one part. It ignores nil. Only the first error calls parts,
// which counts the parts of the call.
func (e *Errors) Set(part int, parts func() int, err error) {
	if err == nil {
		return
	}
	if *e == nil {
		*e = make(Errors, parts())
	}
	(*e)[part] = err
}

// WrongLength returns the problem of an out whose length is not the number of claims, and
// how to mend it.
func WrongLength(claims, decisions int) (problem, mend string) {
	return fmt.Sprintf("out: has room for %d decisions, and there are %d claims", decisions, claims), "pass one for each claim"
}
