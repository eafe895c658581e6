package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/stintdev/stint/internal/hostname"
)

// maxName bounds the bytes of a name in metrics and logs.
const maxName = 200

// Check returns an error for an option that no request could match, or that would not do
// what it says. form is the [Options.PathForm] in force. Errors begin with the name of the
// setting. Whether the group exists is not checked.
func (o *RouteOptions) Check(form func(string) (string, error)) error {
	if len(o.name()) > maxName {
		return fmt.Errorf("name: is longer than %d bytes (give a shorter name)", maxName)
	}
	return errors.Join(o.checkHost(), checkPath("path_prefix", o.PathPrefix, form), checkPath("strip_prefix", o.StripPrefix, form),
		checkPath("add_prefix", o.AddPrefix, form), o.checkStrip(), o.RequestHeaders.check("request_headers"), o.ResponseHeaders.check("response_headers"), o.Fallback.check())
}

// Conflict says what two routes share that they must not share, or returns "". A second
// route of the same host and path would serve no request.
func (o *RouteOptions) Conflict(other *RouteOptions) string {
	switch {
	case hostname.Normalize(o.Host) == hostname.Normalize(other.Host) && cmp.Or(o.PathPrefix, "/") == cmp.Or(other.PathPrefix, "/"):
		return "another route has the same host and path_prefix"
	case o.name() == other.name():
		return fmt.Sprintf("another route has the name %q", o.name())
	}
	return ""
}

// checkHost refuses a port, because routes and rules do not distinguish ports.
func (o *RouteOptions) checkHost() error {
	form := hostname.Normalize(o.Host)
	switch {
	case o.Host == "":
		return nil
	case !hostname.IsPattern(form) || strings.Contains(o.Host, "/"):
		return fmt.Errorf("host: %.80q is not a host name (write it in ASCII as api.example.com, or *.example.com for every name below it)", o.Host)
	case form != strings.ToLower(o.Host):
		return fmt.Errorf("host: %.80q has a port or a final dot, which routes do not distinguish (write %s)", o.Host, form)
	}
	return nil
}

// checkPath refuses a path that is not written in the form with which the paths of
// requests are compared.
func checkPath(setting, path string, form func(string) (string, error)) error {
	switch {
	case path == "":
		return nil
	case path[0] != '/':
		return fmt.Errorf("%s: %.80q does not begin with / (write /%.80s)", setting, path, path)
	case strings.ContainsAny(path, "?#"):
		return fmt.Errorf("%s: %.80q has a query or fragment, which is not part of a path (remove the text from ? or # on)", setting, path)
	}
	plain, err := form(path)
	if err != nil {
		return fmt.Errorf("%s: %.80q: %w (write the path plainly)", setting, path, err)
	}
	if strings.HasSuffix(path, "/") && plain != "/" {
		plain += "/"
	}
	if plain != path {
		return fmt.Errorf("%s: %.80q is not in the form in which paths are compared (write %.80s)", setting, path, plain)
	}
	return nil
}

// checkStrip makes sure that every path of the route has the prefix, followed by a slash
// or nothing.
func (o *RouteOptions) checkStrip() error {
	strip := strings.TrimSuffix(o.StripPrefix, "/") + "/"
	if strip != "/" && !strings.HasPrefix(o.PathPrefix, strip) {
		return fmt.Errorf("strip_prefix: paths of the route may not begin with %.80s (write path_prefix: %.80s, or longer)", strip, strip)
	}
	return nil
}
