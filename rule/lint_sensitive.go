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
	"login": "login", "logins": "login", "logon": "login", "signin": "login", "sso": "login",
	"auth": "login", "authenticate": "login", "authentication": "login", "oauth": "login", "oauth2": "login", "token": "login", "tokens": "login",
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
// Words end at every character but a letter or a digit, so /author has no auth, and before a
// capital letter, as in resetPassword. Two words that only - or _ or a capital letter
// separates also count as one, such as sign-in.
func sensitiveWord(text string) string {
	for _, segment := range strings.FieldsFunc(splitWords(text), func(r rune) bool { return r != '-' && !isWordRune(r) }) {
		last := ""
		for word := range strings.SplitSeq(segment, "-") {
			switch {
			case sensitiveWords[word] != "":
				return word
			case sensitiveWords[last+word] != "":
				return last + word
			}
			last = word
		}
	}
	return ""
}

// splitWords returns a text in small letters, with a - wherever _ or a capital letter begins a
// word. It drops the escapes of regular expressions, such as \b, which would be taken for
// letters.
func splitWords(text string) string {
	var words strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
			words.WriteByte(' ')
		case c == '_':
			words.WriteByte('-')
		case i > 0 && isCapital(c) && (!isCapital(text[i-1]) || i+1 < len(text) && isSmall(text[i+1])) && isLetterOrDigit(text[i-1]):
			words.WriteByte('-')
			words.WriteByte(c)
		default:
			words.WriteByte(c)
		}
	}
	return strings.ToLower(words.String())
}

func isSmall(c byte) bool { return c >= 'a' && c <= 'z' }

func isCapital(c byte) bool { return c >= 'A' && c <= 'Z' }

func isLetterOrDigit(c byte) bool { return isSmall(c) || isCapital(c) || c >= '0' && c <= '9' }

func isWordRune(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
