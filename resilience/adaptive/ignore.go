package adaptive

import "net/http"

// Ignore makes the gates that admitted this request learn nothing from its response: the
// outcome is [Ignored]. Use it for a long poll, whose latency is not load, or for an
// error that is not about load. Call it before the response begins. Without a
// [Middleware] around the handler it does nothing.
func Ignore(w http.ResponseWriter) {
	for {
		if gated, ok := w.(*writer); ok {
			gated.ignored = true
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = wrapper.Unwrap()
	}
}
