package adaptive

import "net/http"

// Ignore has the gates that let this request in learn nothing from its answer,
// which then is [Ignored]: that of a long poll, which takes as long as nothing
// happens, or an error that says nothing of the load. Call it before the answer
// begins. Where no [Middleware] is around it does nothing.
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
