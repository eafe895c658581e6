package adminapi

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stintdev/stint/rule"
)

// Role is a set of permissions. An operator may do all that a viewer may; an admin may do
// everything.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // sees rules, history, nodes and the state of keys
	Operator Role = "operator" // changes single rules, tiers, overrides, lists and keys
	Admin    Role = "admin"    // replaces the whole set, rolls it back, forces changes
)

func roles() []Role { return []Role{Viewer, Operator, Admin} }

// allows reports whether the role includes the needed one.
func (r Role) allows(needed Role) bool {
	return slices.Index(roles(), r) >= slices.Index(roles(), needed)
}

// Tokens are the tokens of the API; an empty list admits nobody. They can be replaced
// while serving.
type Tokens struct {
	list    atomic.Pointer[[]token]
	refused atomic.Uint64
}

type token struct {
	name string
	role Role
	sum  [sha256.Size]byte
}

// NewTokens returns tokens with one admin named "admin", whose token is given in plain
// text. An empty text adds none.
func NewTokens(admin string) *Tokens {
	t := &Tokens{}
	var list []token
	if admin != "" {
		list = append(list, token{"admin", Admin, sha256.Sum256([]byte(admin))})
	}
	t.list.Store(&list)
	return t
}

// ParseTokens reads a file of tokens, a line each: a name, a role and the
// hexadecimal SHA-256 of the token, with comments after #. admin is as for
// [NewTokens]. The error is [rule.Problems]. It repeats only names from
// the file.
func ParseTokens(file rule.File, admin string) (*Tokens, error) {
	t := NewTokens(admin)
	list := *t.list.Load()
	var wrong rule.Problems
	lines := bufio.NewScanner(bytes.NewReader(file.Data))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		one, problem := parseToken(strings.Fields(text), list)
		if problem != "" {
			wrong = append(wrong, rule.Problem{File: file.Name, Line: n, Column: 1, What: problem,
				Mend: "write NAME viewer|operator|admin SHA256, where SHA256 is the output of: printf %s TOKEN | sha256sum"})
			continue
		}
		list = append(list, one)
	}
	if err := lines.Err(); err != nil {
		wrong = append(wrong, rule.Problem{File: file.Name, What: "cannot be read: " + err.Error()})
	}
	if wrong != nil {
		return nil, wrong
	}
	t.list.Store(&list)
	return t, nil
}

// parseToken parses a line. It refuses the hash of an empty text, as produced from an
// unset shell variable, because that hash would admit requests with an empty token.
func parseToken(words []string, others []token) (t token, problem string) {
	if len(words) != 3 {
		return t, fmt.Sprintf("the line has %d words, want 3", len(words))
	}
	sum, err := hex.DecodeString(words[2])
	taken := slices.ContainsFunc(others, func(o token) bool { return o.name == words[0] })
	switch {
	case len(words[0]) > 64:
		return t, "the name is longer than 64 bytes"
	case taken:
		return t, fmt.Sprintf("the name %q is in use already", words[0])
	case !slices.Contains(roles(), Role(words[1])):
		return t, fmt.Sprintf("%.20q is not a role", words[1])
	case err != nil || len(sum) != sha256.Size:
		return t, "the hash of " + words[0] + " is not a SHA-256 in hexadecimal"
	case [sha256.Size]byte(sum) == sha256.Sum256(nil):
		return t, "the hash of " + words[0] + " is the hash of an empty token"
	}
	return token{words[0], Role(words[1]), [sha256.Size]byte(sum)}, ""
}

// Replace replaces the tokens by those of another list.
func (t *Tokens) Replace(by *Tokens) { t.list.Store(by.list.Load()) }

// find returns the owner of a token. It compares all tokens, as hashes of equal length,
// so that the duration reveals nothing.
func (t *Tokens) find(text string) (found token, ok bool) {
	sum := sha256.Sum256([]byte(text))
	for _, one := range *t.list.Load() {
		if subtle.ConstantTimeCompare(sum[:], one.sum[:]) == 1 {
			found, ok = one, true
		}
	}
	if !ok {
		t.refused.Add(1)
	}
	return found, ok
}

// Refused returns the number of requests with a missing or wrong token.
func (t *Tokens) Refused() uint64 { return t.refused.Load() }

// Allow reports whether the headers carry a token of at least the needed role.
func (t *Tokens) Allow(h http.Header, needed Role) bool {
	found, ok := t.find(bearer(h))
	return ok && found.role.allows(needed)
}

// identity is the sender of a request.
type identity struct {
	name string
	role Role
}

// codeForbidden is the code of a refusal for the role of the sender.
const codeForbidden = "FORBIDDEN"

// who returns the sender of a request, and refuses a sender whose role is too low. Where
// no token is required, the sender is anyone who reaches this listener, under the name
// that they claim.
func (a *API) who(r *http.Request, needed Role) (identity, error) {
	if a.Tokens == nil {
		return identity{claimed(r), Admin}, nil
	}
	found, ok := a.Tokens.find(bearer(r.Header))
	if !ok {
		return identity{}, &apiError{Status: http.StatusUnauthorized, Code: "UNAUTHORIZED",
			Message: "the token is missing or wrong (send it as Authorization: Bearer TOKEN)"}
	}
	if !found.role.allows(needed) {
		if isChange(r) {
			e := a.entry(&request{Request: r, who: identity{found.name, found.role}}, r.Pattern+" refused: needs "+string(needed), "")
			e.Result = codeForbidden
			a.audit.add(e)
		}
		return identity{}, &apiError{Status: http.StatusForbidden, Code: codeForbidden,
			Message: fmt.Sprintf("the request was refused: %s has the role %s, and the request needs %s (send a token of that role)", found.name, found.role, needed)}
	}
	return identity{found.name, found.role}, nil
}

// claimed returns the name that an unauthenticated caller claims.
func claimed(r *http.Request) string {
	name := r.Header.Get("X-Stint-Author")
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "local"
	}
	return "local:" + name
}

func bearer(h http.Header) string {
	if own := h.Get("X-Stint-Token"); own != "" {
		return own
	}
	scheme, text, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}
