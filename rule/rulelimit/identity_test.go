package rulelimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
)

// TestRulesNameTheirIdentity decides by a file that replaces the sources of the program.
func TestRulesNameTheirIdentity(t *testing.T) {
	parse := func(text string) *rule.Set {
		set, err := rule.Parse(rule.File{Name: "f.yaml", Data: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	program, err := httplimit.ParseSource("header:X-Program")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Identity: httplimit.Identity{APIKey: []httplimit.Source{program}}}
	d, err := New(parse("rules: [{id: a, by: [api_key], missing: deny, limit: 9, window: 60}]"), stint.NewMemory(stint.MemoryOptions{}), o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Middleware(httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	status := func(header string) int {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set(header, "Token k")
		w := httptest.NewRecorder()
		m.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		return w.Code
	}
	if program, file := status("X-Program"), status("X-File"); program != http.StatusNotFound || file != http.StatusTooManyRequests {
		t.Errorf("the program's sources: %d, %d", program, file)
	}
	if err := d.Use(parse("identity: 'header:X-File:Token'\nrules: [{id: a, by: [api_key], missing: deny, limit: 9, window: 60}]")); err != nil {
		t.Fatal(err)
	}
	if program, file := status("X-Program"), status("X-File"); program != http.StatusTooManyRequests || file != http.StatusNotFound {
		t.Errorf("the file's sources: %d, %d", program, file)
	}
	err = d.Use(parse("rules: []\nidentity: ['jwt:sub']"))
	if err == nil || !strings.Contains(err.Error(), `f.yaml:2:12: "jwt:sub": no token can be verified`) {
		t.Errorf("a claim without a verifier: %v", err)
	}
}

// TestSourcesOfFilesAreSources holds the two parsers of sources together.
func TestSourcesOfFilesAreSources(t *testing.T) {
	for _, text := range []string{
		"bearer", "bearer:", "header:X", "header:X:Y", "header:X:", "header::Y", "header:X:Y:Z", "header:a b", "header:a;b", "header:ü",
		"header:X:a b", "cookie:s", "cookie:a=b", "cookie:a b", "cookie:", "query:", "query:a b", "query:a:b", "jwt:sub", "jwt:a:b", "jwt:", "Bearer", "", "ip", "api_key",
	} {
		_, fileErr := rule.Parse(rule.File{Name: "f.yaml", Data: []byte("rules: []\nidentity: ['" + text + "']")})
		if _, err := httplimit.ParseSource(text); (err == nil) != (fileErr == nil) {
			t.Errorf("%q: a program %v, a file %v", text, err, fileErr)
		}
	}
}
