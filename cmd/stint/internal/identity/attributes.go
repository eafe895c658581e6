package identity

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/httpfield"
	"github.com/stintdev/stint/rule"
)

// Reader finds the API key and the claims in the attributes that a caller of the check API
// sends, as the gateway finds them in a request: a caller may send the fields of the
// request ("header:authorization") in place of what they say. An attribute that the caller
// sends itself counts as sent: the caller is an application, and says who its client is.
type Reader struct {
	identity *httplimit.Identity
	places   []string // the attributes that may hold an API key or a token
	claims   bool     // the rules read claims
}

// NewReader returns a reader for rules that read the given attributes.
func NewReader(id *httplimit.Identity, attributes []string) *Reader {
	r := &Reader{identity: id}
	for _, source := range sourcesOf(id) {
		r.addPlace(source)
	}
	if id.Tokens != nil {
		r.addPlace(id.TokenFrom)
	}
	for _, name := range attributes {
		r.claims = r.claims || strings.HasPrefix(name, claimPrefix)
	}
	slices.Sort(r.places)
	r.places = slices.Compact(r.places)
	slices.Reverse(r.places) // header:cookie before cookie:NAME, which is added to the field
	r.claims = id.Tokens != nil && (r.claims || id.RejectInvalidTokens)
	return r
}

// Headers returns the canonical names of the headers that may hold an API key or a token.
func (r *Reader) Headers() (names []string) {
	for _, place := range r.places {
		if name, ok := strings.CutPrefix(place, "header:"); ok {
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	return names
}

// addPlace adds the attributes that hold what the source reads.
func (r *Reader) addPlace(source httplimit.Source) {
	kind, name, _ := strings.Cut(source.String(), ":")
	switch kind {
	case "bearer":
		r.places = append(r.places, "header:authorization")
	case "header":
		name, _, _ = strings.Cut(name, ":") // without a scheme
		r.places = append(r.places, "header:"+strings.ToLower(name))
	case "cookie":
		r.places = append(r.places, "header:cookie", source.String())
	case "query":
		r.places = append(r.places, source.String())
	}
}

// Read returns the attributes with those that the reader finds in them. The error reports
// a token that is to be rejected.
func (r *Reader) Read(given rule.Attributes) (rule.Attributes, error) {
	if _, ok := given.Attribute("api_key"); ok && !r.claims {
		return given, nil
	}
	q := r.request(given)
	if q == nil {
		return given, nil
	}
	q.Header = httpfield.Separate(q.Header) // as in forward auth
	found := &attributes{given, httplimit.NewRequest(q, r.identity)}
	if err := found.request.TokenError(); errors.Is(err, httplimit.ErrInvalidToken) {
		return nil, &stint.Error{Code: stint.CodeInvalid, Problem: "attributes: the token of the request cannot be verified", Mend: "answer your client 401"}
	} else if err != nil {
		return nil, err
	}
	return found, nil
}

// request returns a request with the places that the caller sends, or nil for none.
func (r *Reader) request(given rule.Attributes) *http.Request {
	var q *http.Request
	for _, place := range r.places {
		value, ok := given.Attribute(place)
		if !ok || value == "" {
			continue
		}
		if q == nil {
			q = &http.Request{Method: http.MethodGet, URL: &url.URL{}, Header: http.Header{}}
		}
		kind, name, _ := strings.Cut(place, ":")
		switch kind {
		case "header":
			q.Header.Set(name, value)
		case "cookie":
			q.AddCookie(&http.Cookie{Name: name, Value: value}) //nolint:gosec // of a request, which has no attributes
		case "query":
			q.URL.RawQuery += "&" + url.QueryEscape(name) + "=" + url.QueryEscape(value)
		}
	}
	return q
}

// attributes are those that a caller sends, and those that they contain.
type attributes struct {
	rule.Attributes

	request *httplimit.Request
}

// Attribute implements [rule.Attributes].
func (a *attributes) Attribute(name string) (string, bool) {
	if value, ok := a.Attributes.Attribute(name); ok && value != "" || !derived(name) {
		return value, ok
	}
	return a.request.Attribute(name)
}

// Refusal implements [rule.Refuser].
func (a *attributes) Refusal(name string) error {
	if value, ok := a.Attributes.Attribute(name); ok && value != "" || !derived(name) {
		return nil
	}
	return a.request.Refusal(name)
}

// derived reports whether an attribute may be found in others.
func derived(name string) bool {
	return name == "api_key" || strings.HasPrefix(name, claimPrefix) || strings.HasPrefix(name, "cookie:")
}
