package gateway

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
)

func TestTraceparent(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		valid bool
	}{
		"version00":              {"00-" + traceID + "-" + parentID + "-01", true},
		"notSampled":             {"00-" + traceID + "-" + parentID + "-00", true},
		"unknownFlags":           {"00-" + traceID + "-" + parentID + "-ff", true},
		"laterVersion":           {"cc-" + traceID + "-" + parentID + "-01", true},
		"laterVersionSaysMore":   {"cc-" + traceID + "-" + parentID + "-01-what-ever", true},
		"laterVersionRunsOn":     {"cc-" + traceID + "-" + parentID + "-01.what", false},
		"version00SaysMore":      {"00-" + traceID + "-" + parentID + "-01-more", false},
		"versionFF":              {"ff-" + traceID + "-" + parentID + "-01", false},
		"upperCase":              {"00-" + strings.ToUpper(traceID) + "-" + parentID + "-01", false},
		"noHexadecimal":          {"00-" + traceID[:31] + "g-" + parentID + "-01", false},
		"traceIDZero":            {"00-" + strings.Repeat("0", 32) + "-" + parentID + "-01", false},
		"parentIDZero":           {"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", false},
		"short":                  {"00-" + traceID + "-" + parentID + "-0", false},
		"underscores":            {"00_" + traceID + "_" + parentID + "_01", false},
		"hyphensAtOtherPlaces":   {"00-" + traceID[:30] + "-" + parentID + "ab-01", false},
		"flagsAreNoHexadecimal":  {"00-" + traceID + "-" + parentID + "-0x", false},
		"empty":                  {"", false},
		"versionIsNoHexadecimal": {"0x-" + traceID + "-" + parentID + "-01", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := validTraceparent(c.value); got != c.valid {
				t.Errorf("%q: got %v", c.value, got)
			}
		})
	}
}

func TestTracestate(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		valid bool
	}{
		"two":                    {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true},
		"spacesAndEmptyOnes":     {"a=1 , ,\tb=2,", true},
		"tenantAtSystem":         {"1fw529a@vendor=opaque value", true},
		"everyCharacterOfKeys":   {"a0_-*/=x", true},
		"thirtyTwo":              {members(32), true},
		"thirtyThree":            {members(33), false},
		"noMember":               {" , ", false},
		"keyTwice":               {"a=1,a=2", false},
		"noValue":                {"a=", false},
		"noEqualsSign":           {"a", false},
		"twoEqualsSigns":         {"a=b=c", false},
		"upperCaseKey":           {"A=1", false},
		"keyBeginsWithADigit":    {"1a=1", false},
		"systemBeginsWithADigit": {"a@1=1", false},
		"twoSystems":             {"a@b@c=1", false},
		"longestKey":             {"a" + strings.Repeat("b", 255) + "=1", true},
		"keyTooLong":             {"a" + strings.Repeat("b", 256) + "=1", false},
		"tenantTooLong":          {strings.Repeat("b", 242) + "@c=1", false},
		"systemTooLong":          {"b@" + strings.Repeat("c", 15) + "=1", false},
		"longestValue":           {"a=" + strings.Repeat("x", 256), true},
		"valueTooLong":           {"a=" + strings.Repeat("x", 257), false},
		"controlCharacter":       {"a=b\x01c", false},
		"notASCII":               {"a=é", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := validTracestate(c.value); got != c.valid {
				t.Errorf("%q: got %v", c.value, got)
			}
		})
	}
}

func members(n int) string {
	var all []string
	for i := range n {
		all = append(all, "k"+string(rune('a'+i%26))+strings.Repeat("x", i/26)+"=1")
	}
	return strings.Join(all, ",")
}

func TestTraceContextIsPassedOnOrBegun(t *testing.T) {
	valid := "00-" + traceID + "-" + parentID + "-00"
	for name, c := range map[string]struct {
		in            http.Header
		parent, state string // parent empty: a new one
	}{
		"validIsPassedOnAsItIs":      {http.Header{"Traceparent": {valid}, "Tracestate": {"a=1"}}, valid, "a=1"},
		"severalStatesAreOneList":    {http.Header{"Traceparent": {valid}, "Tracestate": {"a=1", "b=2"}}, valid, "a=1,b=2"},
		"invalidStateIsDropped":      {http.Header{"Traceparent": {valid}, "Tracestate": {"A"}}, valid, ""},
		"noParentDropsTheState":      {http.Header{"Tracestate": {"a=1"}}, "", ""},
		"invalidParentDropsTheState": {http.Header{"Traceparent": {"00-x"}, "Tracestate": {"a=1"}}, "", ""},
		"twoParentsAreInvalid":       {http.Header{"Traceparent": {valid, valid}, "Tracestate": {"a=1"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := c.in.Clone()
			setTrace(c.in, out)
			parent := out.Get("Traceparent")
			if c.parent == "" && !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(parent) || c.parent != "" && parent != c.parent {
				t.Errorf("got the parent %q", parent)
			}
			if out.Get("Tracestate") != c.state || len(out["Traceparent"]) != 1 {
				t.Errorf("got %v", out)
			}
		})
	}
}

func FuzzTraceContext(f *testing.F) {
	f.Add("00-"+traceID+"-"+parentID+"-01", "a=1,b@c=2")
	f.Add("cc-"+traceID+"-"+parentID+"-01-x", "")
	form := regexp.MustCompile(`^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-(?s:.*))?)$`)
	zero := regexp.MustCompile(`^(ff|..-0{32}|..-.{32}-0{16})`)
	more := regexp.MustCompile(`(?s)^00-.{52}.`)
	f.Fuzz(func(t *testing.T, parent, state string) {
		out := http.Header{}
		setTrace(http.Header{"Traceparent": {parent}, "Tracestate": {state}}, out)
		wanted := form.MatchString(parent) && !zero.MatchString(parent) && !more.MatchString(parent)
		if passed := out.Get("Traceparent") == parent; passed != wanted {
			t.Errorf("%q: passed on: %v", parent, passed)
		}
		if !validTraceparent(out.Get("Traceparent")) || out.Get("Tracestate") != "" && (!wanted || out.Get("Tracestate") != state) {
			t.Errorf("%q, %q became %v", parent, state, out)
		}
	})
}
