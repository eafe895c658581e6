package tracing

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
)

// HTTP returns a handler that records the requests to next. The route is a part of the
// name of their spans. A request of several URLs has none.
func (l *Listener) HTTP(route string, next http.HandlerFunc) http.HandlerFunc {
	if l == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, span := l.begin(r.Context(), r.Header[w3ctrace.Parent], r.Header[w3ctrace.State], func() (string, []attribute.KeyValue) {
			return describeHTTP(r.Method, route)
		})
		if span == nil {
			next(w, r)
			return
		}
		status := &statusWriter{ResponseWriter: w}
		defer func() {
			if status.code != 0 {
				span.SetAttributes(attribute.Int("http.response.status_code", status.code))
			}
			if status.code == 0 || status.code >= http.StatusInternalServerError {
				fail(span, strconv.Itoa(status.code))
			}
			span.End()
		}()
		next(status, r.WithContext(ctx))
		if status.code == 0 { // net/http writes it after the handler
			status.code = http.StatusOK
		}
	}
}

// describeHTTP returns the name and the attributes of the span of a request.
func describeHTTP(requested, route string) (name string, attributes []attribute.KeyValue) {
	name = method(requested)
	attributes = []attribute.KeyValue{attribute.String("http.request.method", name)}
	if route != "" {
		name += " " + route
		attributes = append(attributes, attribute.String("http.route", route))
	}
	return name, attributes
}

// method returns a method that HTTP defines, or _OTHER: callers choose it.
func method(of string) string {
	known := [...]string{
		http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace,
	}
	if slices.Contains(known[:], of) {
		return of
	}
	return "_OTHER"
}

// statusWriter keeps the status of a response.
type statusWriter struct {
	http.ResponseWriter

	code int // of the final response; 0: it has not begun
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(code int) {
	if w.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] reach the response.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements [http.Flusher].
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack implements [http.Hijacker].
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
