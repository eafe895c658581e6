package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode"
)

// Text is one secret: the password or token that a file holds, or one that never
// changes. A nil *Text is no secret at all. The methods are safe for use by many
// goroutines at once.
type Text struct {
	*Files // nil: it never changes

	current atomic.Pointer[text]
}

type text struct {
	secret string
	sum    [sha256.Size]byte // sums have one length, so comparing tells nothing of the secret's
}

// Fixed returns a secret that never changes; nil when it is empty.
func Fixed(secret string) *Text {
	if secret == "" {
		return nil
	}
	t := &Text{}
	t.set(secret)
	return t
}

// OpenText reads a secret from a file. what says what it is in errors: a token
// or a password. An empty file is a mistake: it would leave open what was meant
// to be closed. So is one of several lines, which no header can carry.
func OpenText(flag, what, path string) (*Text, error) {
	t := &Text{}
	var err error
	t.Files, err = Open(flag, []string{path}, func(contents [][]byte) error {
		secret, err := ParseText(what, path, contents[0])
		if err == nil {
			t.set(secret)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ParseText reads a secret from the content of a file, as [OpenText] does. No
// error shows it.
func ParseText(what, path string, data []byte) (string, error) {
	secret := trimmed(data)
	switch {
	case secret == "":
		return "", fmt.Errorf("%s is empty (write the %s into it)", path, what)
	case strings.ContainsFunc(secret, unicode.IsControl):
		return "", fmt.Errorf("%s holds several lines, or control characters (write the %s alone into it, as UTF-8)", path, what)
	}
	return secret, nil
}

func (t *Text) set(secret string) {
	t.current.Store(&text{secret, sha256.Sum256([]byte(secret))})
}

// Value returns the secret in force; empty when there is none.
func (t *Text) Value() string {
	if t == nil {
		return ""
	}
	return t.current.Load().secret
}

// Fresh returns the secret in force after a look at its file: for callers that
// need it seldom, to make a connection for example.
func (t *Text) Fresh() string {
	if t != nil {
		t.Refresh()
	}
	return t.Value()
}

// Is reports whether a candidate is the secret in force, in a time that tells
// nothing of it. Nothing is the secret where there is none.
func (t *Text) Is(candidate []byte) bool {
	if t == nil {
		return false
	}
	sum := sha256.Sum256(candidate)
	return subtle.ConstantTimeCompare(sum[:], t.current.Load().sum[:]) == 1
}

// String hides the secret.
func (t *Text) String() string { return "***" }

// GoString hides the secret.
func (t *Text) GoString() string { return "***" }
