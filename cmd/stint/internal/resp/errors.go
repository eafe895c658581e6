package resp

import (
	"errors"

	"github.com/stintdev/stint"
)

// replyError is the text of an error reply; it begins with the error code.
type replyError string

func (e replyError) Error() string { return string(e) }

// errorText translates errors to RESP. No other function does. The cause of a store
// failure may name internal servers, so only the log gets it.
func errorText(err error) string {
	if reply, ok := errors.AsType[replyError](err); ok {
		return string(reply)
	}
	if failed := storeFailure(err); failed != nil && failed.Kind != stint.KindCallerBudget {
		return "ERR no decision could be made: the store fails (" + failed.KindName() + ")"
	}
	return "ERR " + err.Error()
}

// storeFailure returns the error of a store, or nil if the error is a mistake of the
// client.
func storeFailure(err error) *stint.Error {
	failed, ok := errors.AsType[*stint.Error](err)
	if !ok || failed.Code == stint.CodeInvalid {
		return nil
	}
	return failed
}
