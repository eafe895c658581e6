package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
)

// The functions below find what rules read and a server does not have. tokens says whether
// the server has keys that verify tokens.

// CheckRules returns why a server cannot apply a rule set: the set names a source of API
// keys that no request has. If no caller can send attributes, so that HTTP requests are all
// that the rules see, an attribute that no request has is a mistake too.
func CheckRules(set *rule.Set, tokens, callersSend bool) rule.Problems {
	problems := set.CheckIdentity(func(source string) error { return CheckSource(source, tokens) })
	if !callersSend {
		problems = append(problems, set.CheckAttributes(func(name string) error { return CheckAttribute(name, tokens) })...)
	}
	return problems
}

// UnverifiedClaims returns the claims that rules read and that no key verifies. Such a rule
// counts otherwise than its author meant, or nothing.
func UnverifiedClaims(set *rule.Set, tokens bool) rule.Problems {
	return set.CheckAttributes(func(name string) error { return checkClaim(name, tokens) })
}

// UnreadableAttributes returns the attributes that rules read and that no HTTP request has,
// except the claims of [UnverifiedClaims]. Callers of the check API can send any attribute.
func UnreadableAttributes(set *rule.Set, tokens bool) rule.Problems {
	problems := set.CheckAttributes(func(name string) error {
		if isUnverified(name, tokens) {
			return nil
		}
		return CheckAttribute(name, tokens)
	})
	for i := range problems {
		problems[i].What = "the gateway and forward auth cannot apply this as it is written: " + problems[i].What
	}
	return problems
}

// CheckSource returns an error for a source of API keys that no request can have.
func CheckSource(source string, tokens bool) error {
	if _, err := httplimit.ParseSource(source); err != nil {
		return err
	}
	if isUnverified(source, tokens) {
		return fmt.Errorf("%s is a claim, and no key verifies tokens (give --jwt-keys FILE or URL)", source)
	}
	return nil
}

// CheckAttribute returns an error for an attribute that no HTTP request has.
func CheckAttribute(name string, tokens bool) error {
	if name == "tier" {
		return errors.New("no HTTP request has the attribute tier (give the tier an api_key_pattern)")
	}
	if err := checkClaim(name, tokens); err != nil {
		return err
	}
	return httplimit.ValidateAttribute(name)
}

// isUnverified reports whether a source or an attribute is a claim that no key can verify.
func isUnverified(name string, tokens bool) bool {
	return strings.HasPrefix(name, claimPrefix) && !tokens
}

func checkClaim(name string, tokens bool) error {
	if isUnverified(name, tokens) {
		return fmt.Errorf("%.100q: the server verifies no tokens (give --jwt-keys FILE or URL)", name)
	}
	return nil
}
