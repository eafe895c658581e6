package adminapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// maxBody is the largest body of a request, in bytes: enough for a set of 10,000
// rules.
const maxBody = 32 << 20

// maxObject is the largest body that is one JSON object with a few fields.
const maxObject = 1 << 20

// maxWhy is the longest comment, in bytes.
const maxWhy = 2000

// request is one request and its sender.
type request struct {
	*http.Request

	w   http.ResponseWriter
	who identity
	key string // the key that a change is about; empty: none

	bodies  *bodies
	release func() // releases the reserved body length; nil until the body is read
}

// body reads the whole body.
func (r *request) body() ([]byte, error) { return r.bodyUpTo(maxBody) }

// bodyUpTo waits for room and reads the body. The room is held until the request
// is answered. Call it once.
func (r *request) bodyUpTo(most int64) (data []byte, err error) {
	tooLarge := &apiError{Status: http.StatusRequestEntityTooLarge, Code: "BODY_TOO_LARGE", Message: fmt.Sprintf("body: is larger than %d bytes", most)}
	if r.ContentLength > most {
		return nil, tooLarge
	}
	if r.release, err = r.bodies.reserve(r.Context(), r.Request, most); err != nil {
		return nil, err
	}
	read := bytes.NewBuffer(make([]byte, 0, max(r.ContentLength, 0)+bytes.MinRead))
	_, err = read.ReadFrom(http.MaxBytesReader(r.w, r.Body, most))
	data = read.Bytes()
	var beyond *http.MaxBytesError
	switch {
	case errors.As(err, &beyond):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &apiError{Status: http.StatusRequestTimeout, Code: "INVALID_REQUEST", Message: "body: did not arrive in time (try again)"}
	case err != nil:
		return nil, badRequest("body: ends before its declared length (send it again)")
	case !utf8.Valid(data):
		return nil, badRequest("body: is not valid UTF-8")
	}
	return data, nil
}

// options are the options of every change.
type options struct {
	dryRun  bool
	force   bool
	comment string
	match   []string // the tags of If-Match; nil: unconditional
	none    []string // the tags of If-None-Match
	impact  string   // one of the constants; empty: the default of the kind of change

	canary *ruleset.CanaryOptions // nil: the change is for all callers
}

// The ways to handle a change that denies too much.
const (
	impactRefuse = "refuse"
	impactReport = "report"
	impactOff    = "off"
)

func (r *request) options() (o options, err error) {
	if o.dryRun, err = r.flag("dry_run"); err != nil {
		return o, err
	}
	if o.force, err = r.flag("force"); err != nil {
		return o, err
	}
	if o.force {
		if err = r.needsAdmin("force"); err != nil {
			return o, err
		}
	}
	if o.comment, err = r.comment(); err != nil {
		return o, err
	}
	o.impact = r.URL.Query().Get("impact")
	if !slices.Contains([]string{"", impactRefuse, impactReport, impactOff}, o.impact) {
		return o, badRequest("impact: %.40q is not known (use refuse, report or off)", o.impact)
	}
	if o.canary, err = r.canary(); err != nil {
		return o, err
	}
	if o.canary != nil {
		if err = r.needsAdmin("canary"); err != nil {
			return o, err
		}
	}
	o.match, o.none = tags(r.Header.Values("If-Match")), tags(r.Header.Values("If-None-Match"))
	return o, nil
}

// needsAdmin refuses an option of a change to other roles.
func (r *request) needsAdmin(option string) error {
	if r.who.role.allows(Admin) {
		return nil
	}
	return &apiError{Status: http.StatusForbidden, Code: codeForbidden, Message: fmt.Sprintf("%s: %s has the role %s, and %s needs %s (send a token of that role)", option, r.who.name, r.who.role, option, Admin)}
}

// comment returns the reason for the change.
func (r *request) comment() (string, error) {
	why := r.Header.Get("X-Stint-Comment")
	if why == "" {
		why = r.URL.Query().Get("comment")
	}
	return why, checkWhy("comment", why)
}

// checkWhy refuses control characters, which could change the terminal of a
// reader.
func checkWhy(name, why string) error {
	control := func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }
	if len(why) > maxWhy || !utf8.ValidString(why) || strings.ContainsFunc(why, control) {
		return badRequest("%s: is longer than %d bytes or has control characters", name, maxWhy)
	}
	return nil
}

// pathOrQuery reads a caller's value from the path, or from the query if the path ends before
// it. Clients and proxies remove the segments . and .. from a path, and a query keeps them.
func (r *request) pathOrQuery(name string) (string, error) {
	inPath, inQuery := r.PathValue(name), r.URL.Query().Get(name)
	switch {
	case inPath != "" && inQuery != "":
		return "", badRequest("%s: is in the path and in the query (give it once)", name)
	case inPath == "" && inQuery == "":
		return "", badRequest("%s: is missing (give it as the last part of the path, or in the query)", name)
	}
	return cmp.Or(inPath, inQuery), nil
}

// flag reads a boolean query parameter. Without a value it is true.
func (r *request) flag(name string) (bool, error) {
	values, given := r.URL.Query()[name]
	if !given || values[0] == "" {
		return given, nil
	}
	on, err := strconv.ParseBool(values[0])
	if err != nil {
		return false, badRequest("%s: %.40q is neither true nor false", name, values[0])
	}
	return on, nil
}

// number reads a whole number from the query, with a default.
func (r *request) number(name string, otherwise, least, most uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s: %.40q is not a whole number from %d to %d", name, text, least, most)
	}
	return n, nil
}

// wantsYAML reports whether the request prefers YAML or plain text to JSON.
func (r *request) wantsYAML() bool {
	return r.prefers("text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml", "text/plain")
}

// prefers reports whether the request names one of these media types before JSON.
func (r *request) prefers(kinds ...string) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			kind, _, _ := strings.Cut(strings.TrimSpace(part), ";")
			switch kind = strings.ToLower(kind); {
			case slices.Contains(kinds, kind):
				return true
			case kind == "application/json":
				return false
			}
		}
	}
	return false
}

// tags parses the entity tags of a header. It returns nil only if the header is
// absent: an empty header matches nothing.
func tags(fields []string) (list []string) {
	if fields != nil {
		list = []string{}
	}
	for _, field := range fields {
		for tag := range strings.SplitSeq(field, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				list = append(list, tag)
			}
		}
	}
	return list
}

// matches reports whether If-Match is absent or has the tag of the current state.
// A part that does not exist has the tag "".
func (o *options) matches(tag string) bool { return o.match == nil || among(o.match, tag) }

// among reports whether the list has the tag of an existing part, or *.
func among(list []string, tag string) bool {
	return tag != "" && (slices.Contains(list, tag) || slices.Contains(list, "*"))
}
