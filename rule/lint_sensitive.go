package rule

import (
	"fmt"
	"strings"

	"github.com/stintdev/stint"
)

// sensitiveWords are the words by which a path or an id looks like something that guessing
// attacks or that moves money, and what each stands for. Without a limit, such a path is
// open to every guess for as long as the store fails.
var sensitiveWords = map[string]string{
	"login": "login", "logins": "login", "logon": "login", "signin": "login",
	"auth": "login", "authenticate": "login", "oauth": "login", "oauth2": "login", "token": "login", "tokens": "login",
	"password": "password", "passwords": "password", "passwd": "password", "reset": "password", "forgot": "password",
	"payment": "payment", "payments": "payment", "pay": "payment", "checkout": "payment", "charge": "payment", "charges": "payment",
	"otp": "verification", "totp": "verification", "mfa": "verification", "2fa": "verification", "verify": "verification", "verification": "verification",
}

// lintSensitive warns about a rule that fails open although its path or its id looks like a
// login, a payment, a password or a verification. A rule for every request gets no warning.
func (c *compiler) lintSensitive(r *Rule, d *rawRule) {
	if r.Policy.OnFailure != stint.FailOpen || r.denyAll || r.match.anything() {
		return
	}
	for _, t := range []struct {
		name string
		text located
	}{{"path", d.match.path}, {"path_prefix", d.match.prefix}, {"endpoint_regex", d.match.regex}, {"id", d.id}} {
		if word := sensitiveWord(t.text.text); word != "" {
			c.warn(t.text.at, fmt.Sprintf("rule %s fails open while the store is down: every request is allowed, although %q in its %s looks like a %s",
				r.ID, word, t.name, sensitiveWords[word]), "write on_store_failure: closed")
			return
		}
	}
}

// sensitiveWord returns the first word of a path, an expression or an id that is sensitive.
// Words end at every character but a letter or a digit, so /author has no auth. Two words
// that - or _ joins also count as one, such as sign-in.
func sensitiveWord(text string) string {
	segments := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !isWordRune(r) && r != '-' && r != '_' })
	for _, segment := range segments {
		words := strings.FieldsFunc(segment, func(r rune) bool { return !isWordRune(r) })
		for i, word := range words {
			if sensitiveWords[word] != "" {
				return word
			}
			if i > 0 && sensitiveWords[words[i-1]+word] != "" {
				return words[i-1] + word
			}
		}
	}
	return ""
}

func isWordRune(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
