package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stintdev/stint/resilience/deadline"
)

// headerEdit removes fields of a header and sets others. The zero value does nothing.
type headerEdit struct {
	names map[string]bool // all names, to remove or to set, in the form of foldName
	set   map[string]string
}

func newHeaderEdit(o *HeaderOptions) headerEdit {
	if len(o.Remove)+len(o.Set) == 0 {
		return headerEdit{}
	}
	e := headerEdit{names: map[string]bool{}, set: map[string]string{}}
	for _, name := range o.Remove {
		e.names[foldName(name)] = true
	}
	for name, value := range o.Set {
		e.names[foldName(name)] = true
		e.set[http.CanonicalHeaderKey(name)] = value
	}
	return e
}

// foldName treats underscores as hyphens, as many applications do. A client could
// otherwise send X_Plan beside the X-Plan that a route sets.
func foldName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// apply changes a header. Announced trailers of the same names are removed too, because
// some applications merge the trailers of requests into headers. There may be none.
func (e *headerEdit) apply(h, trailer http.Header) {
	if e.names == nil {
		return
	}
	edited := func(name string, _ []string) bool { return e.names[foldName(name)] }
	maps.DeleteFunc(h, edited)
	maps.DeleteFunc(trailer, edited)
	for name, value := range e.set {
		h[name] = []string{value}
	}
}

// maxHeaderEdits bounds the fields of one list.
const maxHeaderEdits = 100

// check returns an error for each field that must not be changed. Errors begin with the
// name of the setting.
func (o *HeaderOptions) check(setting string) error {
	if n := len(o.Remove) + len(o.Set); n > maxHeaderEdits {
		return fmt.Errorf("%s: has %d fields (use at most %d)", setting, n, maxHeaderEdits)
	}
	var all []error
	for _, name := range slices.Concat(o.Remove, slices.Sorted(maps.Keys(o.Set))) {
		if err := checkField(name); err != nil {
			all = append(all, fmt.Errorf("%s: %w", setting, err))
		}
	}
	for name, value := range o.Set {
		if !httpguts.ValidHeaderFieldValue(value) {
			all = append(all, fmt.Errorf("%s: the value of %.40q has a control character (write visible characters and spaces)", setting, name))
		}
	}
	return errors.Join(all...)
}

// checkField refuses fields whose change would break the connection, the identity that
// rules count, or what the gateway itself writes.
func checkField(name string) error {
	canonical := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%.40q is not a field name (write it as X-Plan)", name)
	case canonical == "Host":
		return errors.New("field Host is set by the host of the upstreams (write host: client or upstream there)")
	case ofConnection(canonical):
		return fmt.Errorf("%s belongs to one connection or body (remove it from the list)", name)
	case isRateLimit(canonical) || ofGateway(canonical):
		return fmt.Errorf("%s is written by the gateway (remove it from the list)", name)
	case identifiesClient(canonical):
		return fmt.Errorf("%s identifies the client, and rules count by what it sends (remove it from the list)", name)
	}
	return nil
}

func ofConnection(name string) bool {
	switch name {
	case "Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect":
		return true
	}
	return slices.Contains(hopByHop[:], name) || strings.HasPrefix(name, "Sec-Websocket-")
}

func ofGateway(name string) bool {
	switch name {
	case requestIDHeader, "Traceparent", "Tracestate", deadline.DefaultHeader, "Grpc-Timeout", "X-Envoy-Expected-Rq-Timeout-Ms":
		return true
	}
	return false
}
