package httpapi

import "net/http"

// ownPagesOnly refuses requests that a browser sends for a page of another site. A
// malicious page can make each visitor's browser send requests to addresses that the
// page's author cannot reach, and so charge other callers' keys. The browser names the
// page's site in Origin or Sec-Fetch-Site.
func (s *Server) ownPagesOnly(next http.HandlerFunc, refusal string) http.HandlerFunc {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(s.forbid(refusal))
	return origins.Handler(next).ServeHTTP
}

// loopbackHostOnly refuses requests whose Host does not name this machine. In a DNS
// rebinding attack, the author of a page points the page's own name at 127.0.0.1. The
// browser then treats the request as same-site, and only the Host reveals the attack.
// Browsers always send a Host, so a request without one passes.
func (s *Server) loopbackHostOnly(next http.HandlerFunc, refusal string) http.HandlerFunc {
	refuse := s.forbid(refusal)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "" && !loopback(r.Host) && !loopback(r.Host+":0") {
			refuse(w, r)
			return
		}
		next(w, r)
	}
}

func (s *Server) forbid(refusal string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &apiError{http.StatusForbidden, codeForbidden, refusal})
	}
}

// notFromPages guards an endpoint of the check API against pages of other sites. It
// checks the Host only if the listener is on loopback without a token. On other
// listeners, operators may use any host name.
func (s *Server) notFromPages(next http.HandlerFunc) http.HandlerFunc {
	const refusal = "pages of other sites are refused: call the check API from a server, not from a browser"
	if s.httpToken == nil && loopback(s.config.HTTP) {
		next = s.loopbackHostOnly(next, refusal)
	}
	return s.ownPagesOnly(next, refusal)
}

// warnOpen logs the listeners that anyone on the network can use without a token or a
// client certificate.
func (s *Server) warnOpen() {
	if s.httpToken != nil {
		return
	}
	var open []string
	for _, l := range []struct {
		name, address string
		certificates  *certificates
	}{{"http", s.config.HTTP, s.certs}, {"grpc", s.config.GRPC, s.grpcTLS}, {"resp", s.config.RESP, s.certs}} {
		if l.address != "" && !loopback(l.address) && !l.certificates.asksClients() {
			open = append(open, l.name)
		}
	}
	if open != nil {
		s.log.Warn("other machines can reach these listeners without a token, and charge any key through them "+
			"(listen on 127.0.0.1 beside a sidecar, or give --http-token-file or --client-ca)", "listeners", open)
	}
}
