package httplimit

import (
	"bufio"
	"net"
	"net/http"
	"strings"
)

// SpellHeaders returns a handler whose HTTP/1.1 responses have the header fields of limits,
// ETag and WWW-Authenticate in the letter case of their documents, such as
// X-RateLimit-Limit. net/http keeps headers under canonical names and writes
// X-Ratelimit-Limit. HTTP does not distinguish the two, but some clients do. HTTP/2 has only
// lower case.
//
// The names change at the last moment, when the header of the response is written: until
// then handlers and middleware find the fields by [http.Header.Get]. So SpellHeaders belongs
// outside of everything that reads response headers. Its response writer supports
// [http.ResponseController], [http.Flusher] and [http.Hijacker].
//
// A server may change the names itself, which takes less time: its response writer then has
// the method SpellFields, with a function as its argument that returns the form of a name.
func SpellHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			next.ServeHTTP(w, r)
			return
		}
		s := spellingWriter{ResponseWriter: w}
		if server, ok := w.(fieldSpeller); ok {
			server.SpellFields(spelling)
			s.spelled = true
		}
		next.ServeHTTP(&s, r)
		s.spell() // net/http writes the header of a response without a body
	})
}

// fieldSpeller is the response writer of a server that writes field names as the function
// spells them. It spares the renaming in a map.
type fieldSpeller interface {
	SpellFields(spelling func(name string) string)
}

// spellingWriter renames header fields when the header is written.
type spellingWriter struct {
	http.ResponseWriter

	spelled bool
}

// Unwrap lets [http.ResponseController] find the underlying writer.
func (s *spellingWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements [http.ResponseWriter]. The fields of an informational response may
// change before the final one, so they keep their names.
func (s *spellingWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		s.spell()
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (s *spellingWriter) Write(p []byte) (int, error) {
	s.spell()
	return s.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (s *spellingWriter) Flush() { _ = s.FlushError() }

// FlushError is called by [http.ResponseController].
func (s *spellingWriter) FlushError() error {
	s.spell()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// Hijack implements [http.Hijacker]. A proxy writes the header of an upgraded connection
// itself.
func (s *spellingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	s.spell()
	return http.NewResponseController(s.ResponseWriter).Hijack()
}

func (s *spellingWriter) spell() {
	if s.spelled {
		return
	}
	s.spelled = true
	h := s.Header()
	for name, values := range h {
		if spelled := spelling(name); spelled != name {
			delete(h, name)
			h[spelled] = values
		}
	}
}

// spelling returns the documented form of a canonical header name.
func spelling(name string) string {
	switch name { // the usual ones, without an allocation
	case "X-Ratelimit-Limit":
		return "X-RateLimit-Limit"
	case "X-Ratelimit-Remaining":
		return "X-RateLimit-Remaining"
	case "X-Ratelimit-Reset":
		return "X-RateLimit-Reset"
	case "X-Ratelimit-Status":
		return "X-RateLimit-Status"
	case "Ratelimit":
		return "RateLimit"
	case "Ratelimit-Policy":
		return "RateLimit-Policy"
	case "Etag":
		return "ETag"
	case "Www-Authenticate":
		return "WWW-Authenticate"
	}
	const service, canonical = "RateLimit", "Ratelimit"
	if rest, ok := strings.CutPrefix(name, "X-"+canonical+"-"); ok {
		return "X-" + service + "-" + rest
	}
	if rest, ok := strings.CutPrefix(name, canonical); ok && (rest == "" || rest[0] == '-') {
		return service + rest
	}
	return name
}
