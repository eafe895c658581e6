package storekit

import "github.com/stintdev/stint"

// Scope says which limits share a state: two claims charge the same state if and only
// if their keys and the scopes of their limits are equal.
type Scope struct {
	Namespace, Rule, Name string
	Shape                 string // see [stint.Limit.Shape]
	FromCaller            bool
}

// ScopeOf returns the scope of a limit.
func ScopeOf(l stint.Limit) Scope {
	return Scope{l.Namespace(), l.Rule(), l.Name(), l.Shape(), l.FromCaller()}
}

// callerMark begins the text of a scope of a caller's limit. No namespace begins with it.
const callerMark = "~"

// String returns the scope as one text, such as "/login/token_bucket:1m/bucket". Different
// scopes have different texts, so it can be part of a key.
func (s Scope) String() string {
	text := s.Namespace + "/" + s.Rule + "/" + s.Name + "/" + s.Shape
	if s.FromCaller {
		text = callerMark + text
	}
	return text
}
