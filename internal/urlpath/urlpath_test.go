package urlpath

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

func TestEverySpellingHasOneForm(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"normal already":                      {"/v1/orders", "/v1/orders"},
		"the root":                            {"/", "/"},
		"nothing":                             {"", "/"},
		"no leading slash":                    {"v1/orders", "/v1/orders"},
		"an asterisk":                         {"*", "/*"},
		"letters encoded":                     {"/v1/%6Frders", "/v1/orders"},
		"what a segment may hold is decoded":  {"/a%3Ab%40c%7E%21", "/a:b@c~!"},
		"hex digits become upper case":        {"/caf%c3%a9", "/caf%C3%A9"},
		"bytes beyond ASCII are encoded":      {"/café", "/caf%C3%A9"},
		"a space is encoded":                  {"/a b", "/a%20b"},
		"an encoded slash is no separator":    {"/a%2fb", "/a%2Fb"},
		"an encoded slash hides no dots":      {"/a/..%2Fb", "/a/..%2Fb"},
		"nothing is decoded twice":            {"/%252e%252e/a", "/%252e%252e/a"},
		"a percent sign alone is encoded":     {"/100%", "/100%25"},
		"so is one before no digits":          {"/%zz%4", "/%25zz%254"},
		"NUL stays encoded":                   {"/a%00b", "/a%00b"},
		"a raw control character is encoded":  {"/a\x00\n\x7f", "/a%00%0A%7F"},
		"a backslash is no separator":         {"/a\\..\\b", "/a%5C..%5Cb"},
		"slashes doubled":                     {"//v1///orders", "/v1/orders"},
		"a trailing slash":                    {"/v1/orders/", "/v1/orders"},
		"a dot segment":                       {"/v1/./orders/.", "/v1/orders"},
		"two dots":                            {"/v1/x/../orders", "/v1/orders"},
		"two dots encoded":                    {"/v1/x/%2e%2E/orders", "/v1/orders"},
		"two dots after doubled slashes":      {"/v1/x//../orders", "/v1/orders"},
		"two dots never rise above the root":  {"/../../v1", "/v1"},
		"two dots that leave nothing":         {"/v1/..", "/"},
		"three dots are a name":               {"/.../.a/a.", "/.../.a/a."},
		"case is kept":                        {"/V1/Orders", "/V1/Orders"},
		"a query ends it":                     {"/v1/orders?page=../2", "/v1/orders"},
		"a fragment ends it":                  {"/v1/orders#top", "/v1/orders"},
		"an encoded question mark is its own": {"/a%3fb", "/a%3Fb"},
		"path parameters stay":                {"/a;v=1/b", "/a;v=1/b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Normalize(c.path); got != c.want {
				t.Errorf("Normalize(%q) = %q; want %q", c.path, got, c.want)
			}
		})
	}
}

func TestNormalPathIsReturnedWithoutAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Normalize("/v1/orders/17:confirm") }); n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
}

// FuzzNormalize checks the properties of the form, and compares the result with the
// standard library where that defines one.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"", "/", "//a/./../b/", "/%2e%2e/%2F%2f", "/a%", "/%00\x00é", "a?b#c", "/..%2f/x", "/%25%32%65"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		got := Normalize(p)
		if again := Normalize(got); again != got {
			t.Errorf("%q: %q becomes %q", p, got, again)
		}
		if got != "/" && path.Clean(got) != got || got[0] != '/' {
			t.Errorf("%q: %q is not clean", p, got)
		}
		for i := range len(got) {
			if got[i] <= ' ' || got[i] >= 0x7f {
				t.Errorf("%q: %q has a raw byte %#x", p, got, got[i])
			}
		}
		compare(t, p, got)
	})
}

// compare checks that to decode a path whole, as servers do, and then to clean it
// gives the same path. Paths with encoded slashes are not compared.
func compare(t *testing.T, p, got string) {
	t.Helper()
	decoded, err := url.PathUnescape(p)
	if err != nil || strings.ContainsAny(p, "?#") || strings.Contains(strings.ToLower(p), "%2f") {
		return
	}
	want := path.Clean("/" + decoded)
	back, err := url.PathUnescape(got)
	if err != nil || back != want {
		t.Errorf("%q: %q means %q, %v; want %q", p, got, back, err, want)
	}
}

func BenchmarkNormalize(b *testing.B) {
	for _, p := range []string{"/v1/orders/17/lines", "/v1//%6frders/./17/lines/"} {
		b.Run(p, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Normalize(p)
			}
		})
	}
}
