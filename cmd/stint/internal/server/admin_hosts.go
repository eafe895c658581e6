package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/adminui"
	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
)

// A browser on an operator's machine or network reaches listeners that the author of a page
// cannot reach, so a malicious page can make it send requests to them.
//
// The headers Sec-Fetch-Site and Origin identify a page of another site. Its requests are refused,
// reads included: the page could not see the answers, but it could use up what is bounded, such
// as the streams of /v1/live. The files of the admin pages are exempt, so that links to them work
// on pages of other sites.
//
// If the author of a page points the page's own name at this machine (DNS rebinding), the browser
// takes the page for one of this server, and only the Host differs. Without a token, the Host must
// therefore be loopback or one of --admin-hosts. With a token it may be any name: a page does not
// have the token, because browsers do not store it.

const (
	foreignPage = "the request was refused: it comes from a page of another site (open the admin pages themselves; if they are behind a proxy, give its host name in --admin-hosts)"
	foreignHost = "the request was refused: without --admin-token-file its Host must be localhost or a loopback address (if a proxy is before this server, give its host name in --admin-hosts)"
)

// ownPagesOnly refuses requests that a browser sends for pages of other sites.
func (s *Server) ownPagesOnly(next http.Handler) http.Handler {
	errors := httpapi.ErrorWriter{Logger: s.log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.adminTokens == nil && r.Host != "" && !s.ownHost(r.Host):
			errors.Forbidden(w, r, foreignHost)
		case !isPageFile(r) && s.fromForeignPage(r):
			errors.Forbidden(w, r, foreignPage)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ownHost reports whether the value of a Host field names this machine. Browsers always send one.
func (s *Server) ownHost(host string) bool {
	return httpapi.Loopback(host) || httpapi.Loopback(host+":0") || s.isAdminHost(host)
}

// isAdminHost reports whether a host, with or without a port, is one of --admin-hosts.
func (s *Server) isAdminHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return slices.Contains(s.config.AdminHosts, strings.ToLower(strings.TrimSuffix(name, ".")))
}

// isPageFile reports whether a request reads a file of the admin pages.
func isPageFile(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.URL.Path == adminui.Prefix || strings.HasPrefix(r.URL.Path, adminui.Prefix+"/"))
}

// fromForeignPage reports whether a browser sends a request for a page of another site. Programs
// send neither of the two headers.
func (s *Server) fromForeignPage(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		if origin == "" {
			return false
		}
	}
	from, err := url.Parse(origin)
	if err != nil || from.Host == "" { // "null", for example
		return true
	}
	return !s.isAdminHost(from.Host) && (from.Host != r.Host || r.Header.Get("Sec-Fetch-Site") != "")
}

// checkAdminHost refuses a value of --admin-hosts that can match no host.
func checkAdminHost(name string) error {
	_, err := netip.ParseAddr(name)
	if name == "" || name != strings.ToLower(name) || err != nil && strings.ContainsAny(name, ":/*?#@[] ,") {
		return fmt.Errorf("admin-hosts: %q is not a host name (write it in lower case, without scheme, port, path and wildcard, such as stint.example.com)", name)
	}
	return nil
}
