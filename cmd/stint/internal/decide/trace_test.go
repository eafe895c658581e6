package decide

import "testing"

func TestTraceIDIsThatOfASampledTrace(t *testing.T) {
	const id, rest = "0af7651916cd43dd8448eb211c80319c", "-b7ad6b7169203331-01"
	for parent, want := range map[string]string{
		"00-" + id + rest:                             id,
		"00-" + id + "-b7ad6b7169203331-03":           id,
		"00-" + id + "-b7ad6b7169203331-00":           "",
		"00-" + id + "-b7ad6b7169203331-0x":           "",
		"01-" + id + rest:                             "",
		"00-" + id + rest + "x":                       "",
		"00-" + id + "-b7ad6b7169203331":              "",
		"00-0AF7651916CD43DD8448EB211C80319C" + rest:  "",
		"00-0af7651916cd43dd8448eb211c80319\"" + rest: "",
		"00-00000000000000000000000000000000" + rest:  "",
		"": "",
	} {
		if got := TraceID(parent); got != want {
			t.Errorf("%q: %q", parent, got)
		}
	}
}
