package urlpath

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"testing"
)

func TestDecodedSpellingsHaveOneForm(t *testing.T) {
	for spelling, want := range map[string]string{
		"/v1/orders":             "/v1/orders",
		"":                       "/",
		"*":                      "/*",
		"v1":                     "/v1",
		"/v1%2Forders":           "/v1/orders",
		"/v1%2forders%2F":        "/v1/orders",
		"%2Fv1/orders":           "/v1/orders",
		"/v1/x%2F..%2Forders":    "/v1/orders",
		"/v1/x/..%2F.%2Forders":  "/v1/orders",
		"/%2e%2e%2fv1/orders":    "/v1/orders",
		"/v1%2F%2F/orders":       "/v1/orders",
		"/v1%252Forders":         "/v1%252Forders",
		"/v1/%252e%252e/orders":  "/v1/%252e%252e/orders",
		"/v1/orders;a=1;b=2":     "/v1/orders",
		"/v1;x/orders;":          "/v1/orders",
		"/;x/v1/;/orders/;":      "/v1/orders",
		"/v1/x/..;/orders":       "/v1/orders",
		"/v1/x/..;a=b/orders":    "/v1/orders",
		"/v1/.;a/orders":         "/v1/orders",
		"/v1/x/%2e%2E;a/orders":  "/v1/orders",
		"/v1/orders%3Ba=1":       "/v1/orders",
		"/v1%3bx%2Forders":       "/v1/orders",
		"/v1/x%2F..;/orders":     "/v1/orders",
		"/v1/x/..%3B/orders":     "/v1/orders",
		"/v1/x%2F..%3ba/orders":  "/v1/orders",
		"/v1/orders;%2F":         "/v1/orders",
		"/v1/orders;a=..":        "/v1/orders",
		"/v1/orders;%3B":         "/v1/orders",
		"/v1/orders;x?a=;/../b":  "/v1/orders",
		"/v1/orders#%2F..":       "/v1/orders",
		"/v1/orders%3Fa":         "/v1/orders%3Fa",
		"/v1/orders%00":          "/v1/orders%00",
		"/v1\\orders":            "/v1%5Corders",
		"/v1%5Corders":           "/v1%5Corders",
		"/v1/%zz%4":              "/v1/%25zz%254",
		"/v1%c0%aforders":        "/v1%C0%AForders",
		"/v1/caf%c3%a9":          "/v1/caf%C3%A9",
		"/V1/%4Frders":           "/V1/Orders",
		"/../..%2F../v1/..;/v1":  "/v1",
		"/v1/orders/%2E":         "/v1/orders",
		"/v1/...;/..x;/.;.":      "/v1/.../..x",
		"/v1/orders%2F%2E%2E%2F": "/v1",
	} {
		got, err := Decode(spelling)
		if got != want || err != nil {
			t.Errorf("Decode(%q) = %q, %v; want %q", spelling, got, err, want)
		}
	}
}

func TestAmbiguousPathsAreRefused(t *testing.T) {
	for _, p := range []string{
		"/v1/..;/../orders", "/v1/..%3B/../orders", "/v1/;x/../orders", "/v1/%3Bx/../orders", // are parameters dropped?
		"/v1/x;a=%2F../orders", "/files;a=%2Fb", // do they end at an encoded slash?
		"/v1/a%2Fb/../orders", "/v1/a/b%2F../../orders", // is it one segment?
	} {
		if got, err := Decode(p); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("Decode(%q) = %q, %v", p, got, err)
		}
	}
}

func TestDecodedPathIsReturnedWithoutAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _, _ = Decode("/v1/orders/17:confirm") }); n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
}

func TestCheckRefusesWhatServersReadDifferently(t *testing.T) {
	for _, p := range []string{
		"/v1%2Forders", "/v1%2forders", "/v1/%2e", "/v1/x/.%2E/orders", "/v1/%2e%2e", "/v1;x", "/v1%3Bx", "/;", "/..;/",
		"/v1\\orders", "/v1%5Corders", "/v1%00", "/v1\x00", "/v1%252Forders", "/%2541", "/%zz", "/a%", "/a%4", "/%u002f",
		"/v1%c0%aforders", "/caf%e9", "/\xff",
	} {
		if err := Check(p); err == nil {
			t.Errorf("%q passes", p)
		}
	}
	for _, p := range []string{
		"", "/", "*", "/v1/orders", "//v1/./x/../orders/", "/v1/%6Frders", "/a%2etxt", "/%2e%2e%2e", "/100%25", "/100%25x", "/caf%C3%A9",
		"/a b%20c", "/a,b=c:@", "/v1/orders?x=%2F;..%00", "/v1/orders#;",
	} {
		if err := Check(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// servers are the ways in which servers find the path of a resource.
var servers = map[string]func(p string) (string, error){
	"drops parameters, then decodes": func(p string) (string, error) {
		segments := strings.Split(p, "/")
		for i, s := range segments {
			segments[i], _, _ = strings.Cut(s, ";")
		}
		return url.PathUnescape(strings.Join(segments, "/"))
	},
	"decodes, then drops parameters": func(p string) (string, error) {
		text, err := url.PathUnescape(p)
		segments := strings.Split(text, "/")
		for i, s := range segments {
			segments[i], _, _ = strings.Cut(s, ";")
		}
		return strings.Join(segments, "/"), err
	},
	"decodes": url.PathUnescape,
}

// FuzzDecode checks that whatever path a server finds, a rule for that path has the
// same form as the request.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"/v1%2Forders", "/a/..;/b", "/a/..%3B/b", "/a;x=%2F../b", "/%3B/../b", "/a%3Bx%2Fb", "//a/./../b/", "/%252e%252F", "/a%00\x00é", "/..;%2f..",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if strings.ContainsAny(p, "?#") {
			return
		}
		got, err := Decode(p)
		if err != nil {
			return
		}
		if again, err := Decode(got); again != got || err != nil || Normalize(got) != got || path.Clean(got) != got {
			t.Errorf("%q: %q is not the form of itself", p, got)
		}
		for name, resolves := range servers {
			seen, err := resolves(p)
			if err != nil {
				continue // this server refuses the path
			}
			rule, err := Decode((&url.URL{Path: path.Clean("/" + seen)}).EscapedPath())
			if err != nil || rule != got {
				t.Errorf("%q: a server that %s finds %q, whose form is %q, %v; got %q", p, name, seen, rule, err, got)
			}
		}
		if rule, err := Decode(Normalize(p)); err == nil && rule != got { // rules cannot have ambiguous paths
			t.Errorf("%q: a server that splits before it decodes finds %q, whose form is %q, %v; got %q", p, Normalize(p), rule, err, got)
		}
		if Check(p) == nil && Normalize(p) != got {
			t.Errorf("%q passes, and is %q decoded and %q kept", p, got, Normalize(p))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, p := range []string{"/v1/orders/17/lines", "/v1%2F%6frders/./17;x/lines/"} {
		b.Run(p, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Decode(p)
			}
		})
	}
}
