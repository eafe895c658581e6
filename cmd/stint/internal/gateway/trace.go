package gateway

import (
	"net/http"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// setTrace writes a valid trace context, derived from the request, to out. The gateway
// forwards a valid context unchanged, because a span id that is never reported would break
// the trace. Without a valid context it begins a trace, which it marks as sampled: an
// upstream that follows its caller's decision would record nothing without the mark.
func setTrace(in, out http.Header) {
	parents, state := in[w3ctrace.Parent], strings.Join(in[w3ctrace.State], ",")
	delete(out, w3ctrace.State)
	if _, ok := w3ctrace.Parse(parents); !ok {
		out[w3ctrace.Parent] = []string{w3ctrace.New(true).String()}
		return
	}
	out[w3ctrace.Parent] = parents
	if state != "" && w3ctrace.ValidState(state) {
		out[w3ctrace.State] = []string{state}
	}
}
