package adminclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

// Error is a refusal by the server.
type Error struct {
	Status   int           `json:"-"`
	Code     string        `json:"code"`
	Message  string        `json:"message"`
	Problems rule.Problems `json:"problems"` // in rules; the file "body" is what was sent
	// Diff is what somebody else has changed in the meantime.
	Diff *Diff `json:"diff"`
	// Impact is what the change would deny among the requests of the last minutes.
	Impact *impact.Result `json:"impact"`
}

// The codes that callers distinguish.
const (
	CodeImpact       = "IMPACT"              // too much would be denied
	CodePrecondition = "PRECONDITION_FAILED" // somebody else changed it first
	CodeConflict     = "CONFLICT"            // repeated concurrent publishes
)

func (e *Error) Error() string {
	return fmt.Sprintf("%d %s: %s%s", e.Status, http.StatusText(e.Status), e.Message, e.mend())
}

func (e *Error) mend() string {
	switch e.Status {
	case http.StatusUnauthorized:
		return " (put it into STINT_TOKEN, or into a file for --token-file)"
	case http.StatusPreconditionFailed:
		return " (stint rules show prints what is in force)"
	}
	return ""
}

// Unwrap returns the mistakes in the rules, if there are any.
func (e *Error) Unwrap() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e.Problems
}

// notStint is the error for an answer that is not from a Stint server.
const notStint = "the answer is none of a stint server's admin listener (--server is the address of --admin, by default http://127.0.0.1:6070)"

// refusal converts an answer other than 200 to an error.
func refusal(r *http.Response, body []byte) error {
	var b struct {
		Error *Error `json:"error"`
	}
	if to := r.Header.Get("Location"); to != "" {
		return fmt.Errorf("%s to %.200q, which is not followed, for the token is not for others (give --server the address that answers itself)", r.Status, to)
	}
	if json.Unmarshal(body, &b) != nil || b.Error == nil || b.Error.Message == "" {
		return errors.New(r.Status + ": " + notStint)
	}
	b.Error.Status = r.StatusCode
	return b.Error
}
