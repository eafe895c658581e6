// Package groupcall has what every store needs for a call of TakeGroups: the errors of its
// parts, the check of the length of out, and the texts of errors.
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

// OnceConflict returns the problem of a group whose Once has the ID of another group, and
// how to mend it.
func OnceConflict() (problem, mend string) {
	return "the request id belongs to another request of the last 60 seconds", "repeat a request without changes, and give each new request an id of its own"
}

// OnceBudget returns the problem of a group whose Once the store has no room to remember,
// and how to mend it.
func OnceBudget() (problem, mend string) {
	return "the store has no room to remember another request id", "send the request again later, or without an id"
}
