package rulelimit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/internal/suggest"
	"github.com/stintdev/stint/rule"
)

// check returns an error for a set that the decider cannot apply, or logs the reasons if
// the options allow it.
func (o *Options) check(set *rule.Set) error {
	if set == nil {
		return errors.New("rulelimit: the rule set is nil (check the error of rule.Load)")
	}
	var problems []error
	for _, p := range slices.Concat(set.CheckIdentity(o.checkSource), set.CheckAttributes(o.checkAttribute), set.CheckStores(o.Stores...)) {
		problems = append(problems, p)
	}
	for _, r := range set.Rules() {
		if r.Penalty != nil && r.Mode != rule.Off {
			problems = append(problems, fmt.Errorf("rule %s: only the server applies a penalty (remove it, or set AllowUnsupported)", r.ID))
		}
	}
	if !o.AllowUnsupported {
		return errors.Join(problems...)
	}
	for _, p := range problems {
		o.Logger.Warn("rules: not supported: " + p.Error())
	}
	return nil
}

// checkSource returns an error for a source of API keys that no request has.
func (o *Options) checkSource(text string) error {
	if _, err := httplimit.ParseSource(text); err != nil {
		return err
	}
	if isClaim(text) && o.Identity.Tokens == nil {
		return fmt.Errorf("%q: no token can be verified (set Tokens in Options.Identity)", text)
	}
	return nil
}

// apiKey returns the sources that the rules name in place of those of the options; nil if
// they name none.
func apiKey(set *rule.Set) (sources []httplimit.Source) {
	for _, text := range set.Identity() {
		if source, err := httplimit.ParseSource(text); err == nil {
			sources = append(sources, source)
		}
	}
	return sources
}

// checkAttribute returns an error for an attribute that no request has.
func (o *Options) checkAttribute(name string) error {
	if _, own := o.Attributes[name]; own {
		return nil
	}
	if name == "tier" {
		return errors.New(`no request has the attribute "tier", which alone selects a tier without api_key_pattern (give the tier a pattern, or give Options.Attributes a function for "tier")`)
	}
	if err := httplimit.ValidateAttribute(name); err != nil {
		if near, ok := suggest.Name(name, slices.Sorted(maps.Keys(o.Attributes))); ok {
			return fmt.Errorf("%.100q is no attribute of a request (did you mean %q?)", name, near)
		}
		return fmt.Errorf("%w; give Options.Attributes a function for an attribute that the program knows", err)
	}
	if isClaim(name) && o.Identity.Tokens == nil {
		return fmt.Errorf("%q: no token can be verified (set Tokens in Options.Identity)", name)
	}
	return nil
}

// readsClaims reports whether the rules read a claim of a token.
func (o *Options) readsClaims(set *rule.Set) bool {
	claims := set.CheckAttributes(func(name string) error {
		if _, own := o.Attributes[name]; !own && isClaim(name) {
			return errors.New("a claim")
		}
		return nil
	})
	return (len(claims) > 0 || slices.ContainsFunc(set.Identity(), isClaim)) && !o.AllowUnsupported
}

func isClaim(name string) bool { return strings.HasPrefix(name, "jwt:") }
