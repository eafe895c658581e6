package w3ctrace

import "testing"

func TestRefIsThatOfASampledTrace(t *testing.T) {
	const id, span, rest = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "-b7ad6b7169203331-01"
	for parent, sampled := range map[string]bool{
		"00-" + id + rest:                             true,
		"00-" + id + "-" + span + "-03":               true,
		"00-" + id + "-" + span + "-00":               false,
		"00-" + id + "-" + span + "-0x":               false,
		"01-" + id + rest:                             false,
		"00-" + id + rest + "x":                       false,
		"00-" + id + "-" + span:                       false,
		"00-0AF7651916CD43DD8448EB211C80319C" + rest:  false,
		"00-0af7651916cd43dd8448eb211c80319\"" + rest: false,
		"00-00000000000000000000000000000000" + rest:  false,
		"00-" + id + "-0000000000000000-01":           false,
		"00-" + id + "-b7ad6b716920333\"-01":          false,
		"":                                            false,
	} {
		r := SampledRef([]string{parent})
		if sampled && (r.TraceID() != id || r.SpanID() != span) || !sampled && (r != "" || r.TraceID() != "" || r.SpanID() != "") {
			t.Errorf("%q: %q, %q", parent, r.TraceID(), r.SpanID())
		}
		if c, ok := Parse([]string{parent}); sampled && (!ok || c.Ref() != r) {
			t.Errorf("%q: %q of the parsed context", parent, c.Ref())
		}
		if got := FromContext(WithRef(t.Context(), r)); got != r {
			t.Errorf("%q: %q from the context", parent, got)
		}
	}
	valid := "00-" + id + rest
	if SampledRef(nil) != "" || SampledRef([]string{valid, valid}) != "" {
		t.Error("none, or two, is a reference")
	}
}
