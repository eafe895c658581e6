package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// apiError is an error as the API answers it.
type apiError struct {
	Status   int       `json:"-"`
	Code     string    `json:"code"`
	Message  string    `json:"message"`
	Problems []problem `json:"problems,omitempty"` // mistakes in rules
	Diff     *diff     `json:"diff,omitempty"`     // what changed since the version in If-Match
	Version  uint64    `json:"version,omitempty"`  // the version in force
	// Impact is the effect of a refused change.
	Impact *impact.Result `json:"impact,omitempty"`
	// Unknown means that the change may have been made or not.
	Unknown bool `json:"unknown,omitempty"`
}

func (e *apiError) Error() string { return e.Message }

// problem is a [rule.Problem] in JSON.
type problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"`
	Mend   string `json:"mend,omitempty"`
}

func problemsOf(list rule.Problems) []problem {
	out := make([]problem, len(list))
	for i, p := range list {
		out[i] = problem(p)
	}
	return out
}

func badRequest(format string, args ...any) error {
	return &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: fmt.Sprintf(format, args...)}
}

// asError translates every error of the API to its answer.
func asError(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	if problems, ok := errors.AsType[rule.Problems](err); ok {
		first := problems[0].Error()
		if len(problems) > 1 {
			first = fmt.Sprintf("%s, and %d more", first, len(problems)-1)
		}
		return &apiError{Status: http.StatusBadRequest, Code: "INVALID_RULES", Message: "the rules have mistakes: " + first, Problems: problemsOf(problems)}
	}
	if missing, ok := errors.AsType[*ruleedit.NotFoundError](err); ok {
		return &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: missing.Error()}
	}
	if wrong, ok := errors.AsType[*stint.LimitError](err); ok {
		return &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: wrong.Error()}
	}
	if failed, ok := errors.AsType[*stint.Error](err); ok {
		of, _ := errors.AsType[*storeError](err)
		return fromStore(failed, of)
	}
	if invalid, ok := errors.AsType[*ruleset.InvalidError](err); ok {
		return &apiError{Status: http.StatusBadRequest, Code: "INVALID_RULES", Message: invalid.Err.Error()}
	}
	if errors.Is(err, ruleedit.ErrNotEditable) {
		return &apiError{Status: http.StatusConflict, Code: "NOT_EDITABLE", Message: err.Error()}
	}
	return fromSource(err)
}

// storeError is an error of one store of several.
type storeError struct {
	store string // as rules name it; empty: the default one
	err   error
}

func (e *storeError) name() string  { return cmp.Or(e.store, rule.DefaultStore) }
func (e *storeError) Error() string { return "store " + e.name() + ": " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// ofStore says which store returned an error, if the server has several.
func (a *API) ofStore(l stint.Limit, err error) error {
	if err == nil || !a.NamedStores {
		return err
	}
	return &storeError{l.Store(), err}
}

// fromStore translates an error of a store. of names the store if there are several, and is
// nil otherwise.
func fromStore(e *stint.Error, of *storeError) *apiError {
	if e.Code == stint.CodeInvalid {
		return &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: e.Error()}
	}
	name := ""
	if of != nil {
		name = of.name() + " "
	}
	// The details may name internal servers. Only the log shows them.
	return &apiError{Status: http.StatusServiceUnavailable, Code: "STORE_UNAVAILABLE", Unknown: e.Code == stint.CodeTimeout, Message: "the store " + name + "fails (" + e.KindName() + ")"}
}

// changeError is an error while a change is made. If the source or the store fails then, the change
// may be made or not. If they fail before, it is not made.
type changeError struct {
	err  error
	made bool // a part of the change is made
}

func (e *changeError) Error() string { return e.err.Error() }
func (e *changeError) Unwrap() error { return e.err }

// codeSource is the code of answers while the source of the rules fails.
const codeSource = "SOURCE_UNAVAILABLE"

// fromSource translates an error of the source of the rules.
func fromSource(err error) *apiError {
	conflict, isConflict := errors.AsType[*ruleset.ConflictError](err)
	behind, isBehind := errors.AsType[*ruleset.BehindError](err)
	canary, isCanary := errors.AsType[*ruleset.CanaryError](err)
	gone, isGone := errors.AsType[*ruleset.CanaryGoneError](err)
	switch {
	case isCanary:
		return &apiError{Status: http.StatusConflict, Code: "CANARY", Message: canary.Error(), Version: canary.Number}
	case isGone:
		return &apiError{Status: http.StatusConflict, Code: "NO_CANARY", Message: gone.Error(), Version: gone.Newest.Number}
	case errors.Is(err, ruleset.ErrNoCanary):
		return &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: err.Error()}
	case isBehind:
		return &apiError{Status: http.StatusConflict, Code: "BEHIND", Message: behind.Error(), Version: behind.Ahead.Version}
	case isConflict:
		return &apiError{Status: http.StatusConflict, Code: "CONFLICT", Message: conflict.Error(), Version: conflict.Newest.Number}
	case errors.Is(err, ruleset.ErrNone):
		return &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: err.Error()}
	case errors.Is(err, ruleset.ErrReadOnly):
		return &apiError{Status: http.StatusForbidden, Code: "READ_ONLY", Message: err.Error()}
	case errors.Is(err, ruleset.ErrNumbers):
		return &apiError{Status: http.StatusServiceUnavailable, Code: codeSource, Message: ruleset.ErrNumbers.Error()}
	case errors.Is(err, ruleset.ErrDamaged):
		return &apiError{Status: http.StatusServiceUnavailable, Code: codeSource, Message: "the versions in the source are damaged (publish the rules as a whole set; if that fails too, run stint rules repair --source URL FILE)"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &apiError{Status: http.StatusServiceUnavailable, Code: codeSource, Unknown: true, Message: "the source of the rules did not answer in time, so a change may have been published or not (check the history, then try again)"}
	}
	return &apiError{Status: http.StatusServiceUnavailable, Code: codeSource, Unknown: true, Message: "the source of the rules fails, so a change may have been published or not (check the history; the log of the node has the cause)"}
}

// plainText is an answer in another format than JSON.
type plainText struct {
	kind string
	text []byte
}

// writeAnswer answers with a value.
func writeAnswer(w http.ResponseWriter, value any) {
	if stream, ok := value.(events); ok {
		stream.writeTo(w)
		return
	}
	if text, ok := value.(plainText); ok {
		setHeader(w, text.kind)
		_, _ = w.Write(text.text) // the client may be gone
		return
	}
	writeJSON(w, http.StatusOK, value)
}

func writeError(w http.ResponseWriter, e *apiError) {
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="stint"`)
	}
	writeJSON(w, e.Status, struct {
		Error *apiError `json:"error"`
	}{e})
}

func setHeader(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	setHeader(w, "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) //nolint:errchkjson // every value can be encoded; the client may be gone
}
