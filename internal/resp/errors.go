package resp

import (
	"errors"

	"github.com/stintdev/stint"
)

// replyError is an error as a client reads it, its code first.
type replyError string

func (e replyError) Error() string { return string(e) }

// errorText is the one place where errors become RESP. What is wrong with a
// store may name servers of the inside; it is for the log.
func errorText(err error) string {
	if reply, ok := errors.AsType[replyError](err); ok {
		return string(reply)
	}
	if failed := storeFailure(err); failed != nil && failed.Kind != stint.KindCallerBudget {
		return "ERR no decision could be made: the store fails (" + failed.KindName() + ")"
	}
	return "ERR " + err.Error()
}

// storeFailure is the error of a store, nil when it is a mistake of the client.
func storeFailure(err error) *stint.Error {
	failed, ok := errors.AsType[*stint.Error](err)
	if !ok || failed.Code == stint.CodeInvalid {
		return nil
	}
	return failed
}
