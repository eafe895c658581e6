package w3ctrace

import (
	"fmt"
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
			if _, got := Parse([]string{c.value}); got != c.valid {
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
			if got := ValidState(c.value); got != c.valid {
				t.Errorf("%q: got %v", c.value, got)
			}
		})
	}
}

// A list of a great many members costs what a list of too many costs.
func TestAStateTooLongIsNotReadWhole(t *testing.T) {
	var long strings.Builder
	for i := range 10_000 {
		_, _ = fmt.Fprintf(&long, "k%d=1,", i)
	}
	if allocations := testing.AllocsPerRun(10, func() { ValidState(long.String()) }); allocations > 1 {
		t.Errorf("%v allocations", allocations)
	}
}

func members(n int) string {
	var all []string
	for i := range n {
		all = append(all, "k"+string(rune('a'+i%26))+strings.Repeat("x", i/26)+"=1")
	}
	return strings.Join(all, ",")
}

func TestAContextIsReadAsItIsWritten(t *testing.T) {
	for _, sampled := range []bool{false, true} {
		written := New(sampled)
		if got, ok := Parse([]string{written.String()}); !ok || got != written {
			t.Errorf("%q: got %v, %v", written, got, ok)
		}
	}
}

func TestTheSampledFlagIsOneBit(t *testing.T) {
	for flags, want := range map[string]bool{"00": false, "01": true, "02": false, "03": true, "fe": false, "ff": true} {
		if got, ok := Parse([]string{"00-" + traceID + "-" + parentID + "-" + flags}); !ok || got.Sampled != want {
			t.Errorf("%s: got %v, %v", flags, got, ok)
		}
	}
}
