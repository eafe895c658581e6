package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode"
)

// Text is one secret: the password or token in a file, or a fixed value. A nil *Text
// holds no secret. The methods are safe for concurrent use.
type Text struct {
	*Files // nil: the secret never changes

	current atomic.Pointer[text]
}

type text struct {
	secret string
	sum    [sha256.Size]byte // hashes have one length, so comparing them does not reveal the length of the secret
}

// Fixed returns a secret that never changes, or nil if it is empty.
func Fixed(secret string) *Text {
	if secret == "" {
		return nil
	}
	t := &Text{}
	t.set(secret)
	return t
}

// OpenText reads a secret from a file. what is the word for the secret in errors: token
// or password. An empty file is an error, because it would disable a check that was meant
// to be enabled. So is a file of several lines, because no header can carry them.
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

// ParseText parses the content of a file as [OpenText] does. No error contains the
// secret.
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

// Value returns the current secret, or "" if there is none.
func (t *Text) Value() string {
	if t == nil {
		return ""
	}
	return t.current.Load().secret
}

// Fresh reads the file again if it has changed and returns the secret. It is for
// infrequent uses, such as making a connection.
func (t *Text) Fresh() string {
	if t != nil {
		t.Refresh()
	}
	return t.Value()
}

// Is reports whether a candidate equals the current secret, in a time that does not
// depend on the secret. It returns false if there is none.
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
