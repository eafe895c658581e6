package gateway

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
)

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
			setTrace(c.in, out, &memory{})
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
		setTrace(http.Header{"Traceparent": {parent}, "Tracestate": {state}}, out, &memory{})
		wanted := form.MatchString(parent) && !zero.MatchString(parent) && !more.MatchString(parent)
		if passed := out.Get("Traceparent") == parent; passed != wanted {
			t.Errorf("%q: passed on: %v", parent, passed)
		}
		_, valid := w3ctrace.Parse(out["Traceparent"])
		if !valid || out.Get("Tracestate") != "" && (!wanted || out.Get("Tracestate") != state) {
			t.Errorf("%q, %q became %v", parent, state, out)
		}
	})
}
