package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stintdev/stint/rule"
)

// named serves its name and the request that it got.
func named(t testing.TB, name string) GroupOptions {
	t.Helper()
	s := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", name, r.URL.RequestURI())
	}))
	return GroupOptions{Name: name, Servers: servers(urlOf(t, s.URL))}
}

// ask sends a request with a request target and a Host, as they are, and returns the
// status and the body, or the code of an error.
func ask(t *testing.T, g *Gateway, host, target string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(bounded(t), http.MethodGet, "/", http.NoBody)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	r.URL, r.Host = u, host
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return fmt.Sprintf("%d %s", w.Code, errorCode(t, w.Body.String()))
	}
	return w.Body.String()
}

func TestTheMostSpecificRouteServes(t *testing.T) {
	g := newGateway(t, Options{
		Groups: []GroupOptions{named(t, "any"), named(t, "orders"), named(t, "api"), named(t, "wild"), named(t, "deep")},
		Routes: []RouteOptions{
			{Group: "any", PathPrefix: "/v1/"},
			{Group: "wild", Host: "*.example.com"},
			{Group: "deep", Host: "*.eu.example.com"},
			{Group: "api", Host: "api.example.com"},
			{Group: "orders", Host: "api.example.com", PathPrefix: "/v1/orders"},
		},
	})
	for _, c := range []struct{ host, target, want string }{
		{"api.example.com", "/", "api /"},
		{"API.Example.COM", "/x", "api /x"},
		{"api.example.com:8443", "/x", "api /x"},
		{"api.example.com.", "/x", "api /x"},
		{"api.example.com.:80", "/v1/orders?a=b", "orders /v1/orders?a=b"},
		{"api.example.com", "/v1/orders/7", "orders /v1/orders/7"},
		{"api.example.com", "/v1/ordersx", "orders /v1/ordersx"}, // plain text, as in rules
		{"api.example.com", "/v1", "api /v1"},
		{"www.example.com", "/v1/orders", "wild /v1/orders"},
		{"a.eu.example.com", "/", "deep /"},
		{"example.com", "/v1/x", "any /v1/x"},
		{"example.com", "/v1", "any /v1"}, // as /v1/
		{"example.com", "/v2", "404 NO_ROUTE"},
		{"", "/v1/", "any /v1/"},
		{"", "/", "404 NO_ROUTE"},
		{"api.example.com..", "/", "404 NO_ROUTE"},
		{".example.com", "/", "wild /"},
		{"api.example.com", "http://api.example.com/v1/orders", "orders /v1/orders"},
	} {
		if got := ask(t, g, c.host, c.target); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.host, c.target, got, c.want)
		}
	}
}

// A path leads to the route whose rules match it, however it is spelled: the route is
// found by the form that rules compare.
func TestASpellingOfAPathReachesTheRouteOfItsRules(t *testing.T) {
	for encoding, cases := range map[rule.PathEncoding]map[string]string{
		rule.PathDecode: {
			"/admin/x":              "admin /admin/x",
			"/public/../admin/x":    "admin /public/../admin/x",
			"/public/..%2Fadmin/x":  "admin /public/..%2Fadmin/x",
			"/%61dmin/x":            "admin /%61dmin/x",
			"//admin//x":            "admin //admin//x",
			"/admin%2Fx":            "admin /admin%2Fx",
			"/admin;a=1/x":          "admin /admin;a=1/x",
			"/admin":                "admin /admin",
			"/administrator":        "public /administrator",
			"/Admin/x":              "public /Admin/x",
			"/public/..;/../admin/": "400 BAD_PATH",
			"/x/../../admin/":       "400 BAD_PATH",
		},
		rule.PathKeep: {
			"/admin%2Fx":           "public /admin%2Fx",
			"/admin;a=1/x":         "public /admin;a=1/x",
			"/public/..%2Fadmin/x": "public /public/..%2Fadmin/x",
			"/public/../admin/x":   "admin /public/../admin/x",
		},
		rule.PathReject: {
			"/admin/x":     "admin /admin/x",
			"/admin%2Fx":   "400 BAD_PATH",
			"/admin;a=1/x": "400 BAD_PATH",
		},
	} {
		g := newGateway(t, Options{
			Groups: []GroupOptions{named(t, "public"), named(t, "admin")}, PathForm: encoding.Form,
			Routes: []RouteOptions{{Group: "public"}, {Group: "admin", PathPrefix: "/admin/"}},
		})
		for target, want := range cases {
			if got := ask(t, g, "h", target); got != want {
				t.Errorf("%v %s: %s, want %s", encoding, target, got, want)
			}
		}
	}
}

func TestPrefixesOfPathsAreStrippedAndAdded(t *testing.T) {
	base := named(t, "based")
	base.Servers[0].URL.Path = "/base/"
	g := newGateway(t, Options{
		Groups: []GroupOptions{named(t, "api"), base},
		Routes: []RouteOptions{
			{Group: "api", Host: "strip", PathPrefix: "/v1/", StripPrefix: "/v1"},
			{Group: "api", Host: "deep", PathPrefix: "/v1/orders/", StripPrefix: "/v1/"},
			{Group: "api", Host: "add", AddPrefix: "/app/"},
			{Group: "based", Host: "both", PathPrefix: "/v1/", StripPrefix: "/v1", AddPrefix: "/app"},
		},
	})
	for _, c := range []struct{ host, target, want string }{
		{"strip", "/v1/orders/?q=1", "api /orders/?q=1"},
		{"strip", "/v1/", "api /"},
		{"strip", "/v1", "api /"},
		{"strip", "/v1/a%2Fb;c", "api /a%2Fb;c"},
		{"strip", "/v1/a/../b", "api /a/../b"},
		{"strip", "/v1//b", "api //b"},
		{"strip", "/v1/caf%C3%A9%20x", "api /caf%C3%A9%20x"},
		{"strip", "/v1/../v1/orders", "400 BAD_PATH"},
		{"strip", "/x/../v1/orders", "400 BAD_PATH"},
		{"strip", "//v1/orders", "400 BAD_PATH"},
		{"strip", "/%761/orders", "400 BAD_PATH"},
		{"strip", "/v1%2Forders", "400 BAD_PATH"},
		{"strip", "/v1;x/orders", "400 BAD_PATH"},
		{"strip", "/v1/..;/v1/orders", "400 BAD_PATH"},
		{"deep", "/v1/orders/7", "api /orders/7"},
		{"deep", "/v1/orders", "api /orders"},
		{"add", "/x/", "api /app/x/"},
		{"add", "/", "api /app/"},
		{"add", "/../x", "400 BAD_PATH"},
		{"both", "/v1/x", "based /base/app/x"},
		{"both", "/v1", "based /base/app"},
	} {
		if got := ask(t, g, c.host, c.target); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.host, c.target, got, c.want)
		}
	}
}

// Where ";" is text for the rules, a server that drops what follows it must not be led out
// of the added prefix.
func TestAStrippedPathStaysBelowTheAddedPrefix(t *testing.T) {
	g := newGateway(t, Options{
		Groups: []GroupOptions{named(t, "api")}, PathForm: rule.PathKeep.Form,
		Routes: []RouteOptions{{Group: "api", PathPrefix: "/v1/", StripPrefix: "/v1", AddPrefix: "/app"}},
	})
	for target, want := range map[string]string{
		"/v1/..;/x": "400 BAD_PATH", "/v1/..%2Fx": "400 BAD_PATH", "/v1/%2e%2e;a/x": "400 BAD_PATH", "/v1/a;b/x": "api /app/a;b/x", "/v1/a/..;/x": "api /app/a/..;/x",
	} {
		if got := ask(t, g, "h", target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func TestRoutesThatCannotBeAreRefused(t *testing.T) {
	groups := []GroupOptions{{Name: "a", Servers: servers(urlOf(t, "http://a"))}}
	to := func(o RouteOptions) []RouteOptions { o.Group = "a"; return []RouteOptions{o} }
	for name, c := range map[string]struct {
		routes []RouteOptions
		want   string
	}{
		"unknownGroup":     {[]RouteOptions{{Group: "b"}}, `no group "b"`},
		"hostWithPort":     {to(RouteOptions{Host: "a.example:80"}), "(write a.example)"},
		"hostWithSpace":    {to(RouteOptions{Host: "a b"}), "not a host name"},
		"hostIsAURL":       {to(RouteOptions{Host: "http://a.example"}), "not a host name"},
		"relativePath":     {to(RouteOptions{PathPrefix: "v1/"}), "(write /v1/)"},
		"query":            {to(RouteOptions{PathPrefix: "/v1?x"}), "query"},
		"dots":             {to(RouteOptions{PathPrefix: "/a/../v1/"}), "(write /v1/)"},
		"encoded":          {to(RouteOptions{PathPrefix: "/a%2Fb"}), "(write /a/b)"},
		"ambiguous":        {to(RouteOptions{PathPrefix: "/a/..;/../b"}), "disagree"},
		"stripsTooMuch":    {to(RouteOptions{PathPrefix: "/v1/", StripPrefix: "/v1/orders"}), "path_prefix: /v1/orders/"},
		"stripsPartOfName": {to(RouteOptions{PathPrefix: "/v1", StripPrefix: "/v1"}), "path_prefix: /v1/"},
		"addsDots":         {to(RouteOptions{AddPrefix: "/a/.."}), "add_prefix"},
		"same":             {append(to(RouteOptions{Name: "x"}), to(RouteOptions{Name: "y"})...), "same host and path_prefix"},
		"sameHost":         {append(to(RouteOptions{Host: "A"}), to(RouteOptions{Name: "y", Host: "a"})...), "same host and path_prefix"},
		"sameName":         {append(to(RouteOptions{Name: "x"}), to(RouteOptions{Name: "x", Host: "h"})...), `name "x"`},
		"tooMany":          {make([]RouteOptions, MaxRoutes+1), "1001 routes"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(Options{Groups: groups, Routes: c.routes}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := New(Options{Groups: append(groups, groups...)}); err == nil || !strings.Contains(err.Error(), `two groups have the name "a"`) {
		t.Errorf("two groups of one name: %v", err)
	}
}

// A stripped path is what the rules and the route saw, without the prefix, for every path
// made of these segments.
func TestAStrippedPathIsTheRestOfWhatRulesSaw(t *testing.T) {
	segments := []string{"", ".", "..", "v1", "v1;x", "..;", "%2e%2E", "a", "a%2Fb", "%2F..", "..%2F", "%3B", "%252e"}
	one := &route{prefix: "/v1/", strip: "/v1"}
	stripped := 0
	var try func(path string, more int)
	try = func(path string, more int) {
		for e := rule.PathDecode; e <= rule.PathReject && path != ""; e++ {
			form, err := e.Form(path)
			if err != nil || !one.matches("", form) {
				continue
			}
			rest, ok := one.stripped(path, form, e.Form)
			if !ok {
				continue
			}
			stripped++
			if after, err := e.Form("/app" + rest); err != nil || after != "/app"+strings.TrimPrefix(form, "/v1") {
				t.Errorf("%v: %q, whose form is %q, became %q, whose form is %q (%v)", e, path, form, "/app"+rest, after, err)
			}
		}
		if more == 0 {
			return
		}
		for _, segment := range segments {
			try(path+"/"+segment, more-1)
		}
	}
	try("", 4)
	if stripped < 1000 {
		t.Errorf("only %d paths were stripped", stripped)
	}
}
