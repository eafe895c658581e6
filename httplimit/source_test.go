package httplimit

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestSourcesAreReadAsConfigured(t *testing.T) {
	for _, text := range []string{"bearer", "header:X-Key", "query:key", "cookie:key", "jwt:sub"} {
		if s, err := ParseSource(text); err != nil || s.String() != text {
			t.Errorf("ParseSource(%q) = %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "bearer:x", "header", "header:", "Bearer", "body:key"} {
		if s, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), "jwt:CLAIM") {
			t.Errorf("ParseSource(%q) = %v, %v; want an error that names the known", text, s, err)
		}
	}
}

func TestAPIKey(t *testing.T) {
	custom := []string{"query:key", "cookie:session", "header:x-my-key", "bearer"}
	for name, c := range map[string]struct {
		sources []string
		target  string
		headers []string
		want    string
	}{
		"none":                         {nil, "/", nil, ""},
		"bearer":                       {nil, "/", []string{"Authorization: Bearer sk_1"}, "sk_1"},
		"the scheme in any case":       {nil, "/", []string{"Authorization: bEARER   sk_1  "}, "sk_1"},
		"bearer before X-API-Key":      {nil, "/", []string{"X-API-Key: sk_2", "Authorization: Bearer sk_1"}, "sk_1"},
		"X-API-Key":                    {nil, "/", []string{"X-API-Key: sk_2"}, "sk_2"},
		"X-API-Key beside other words": {nil, "/", []string{"Authorization: Basic abc", "X-API-Key: sk_2"}, "sk_2"},
		"X-API-Key beside no token":    {nil, "/", []string{"Authorization: Bearer ", "X-API-Key: sk_2"}, "sk_2"},
		"the first of several":         {nil, "/", []string{"X-API-Key: sk_1", "X-API-Key: sk_2"}, "sk_1"},
		"query only when configured":   {nil, "/?key=sk_3", nil, ""},
		"query":                        {custom, "/?a=1&k%65y=sk%5f3&key=x", []string{"Authorization: Bearer sk_1"}, "sk_3"},
		"query with plus":              {custom, "/?key=a+b", nil, "a b"},
		"query that cannot be decoded": {custom, "/?key=%zz&key=sk_3", nil, "sk_3"},
		"cookie":                       {custom, "/", []string{"Cookie: a=1; session=sk_4"}, "sk_4"},
		"a header of one's own":        {custom, "/", []string{"X-My-Key: sk_5", "X-API-Key: sk_2"}, "sk_5"},
		"the last resort":              {custom, "/?key=", []string{"Authorization: Bearer sk_1"}, "sk_1"},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewRequest(httptest.NewRequest("GET", c.target, nil), &Identity{APIKey: sources(t, c.sources...)})
			q.Header = from("", c.headers...).Header
			if got, ok := q.Attribute("api_key"); got != c.want || ok != (c.want != "") {
				t.Errorf("api_key %q, %v; want %q", got, ok, c.want)
			}
		})
	}
}

func sources(t *testing.T, texts ...string) (list []Source) {
	t.Helper()
	for _, text := range texts {
		s, err := ParseSource(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func TestAttributes(t *testing.T) {
	r := httptest.NewRequest("POST", "http://API.Example.com.:8080/v1//%6Frders?page=2", nil)
	r.RemoteAddr = "[2001:db8::1]:99"
	r.Header.Set("X-Plan", "gold")
	r.Header.Set("Cookie", "theme=dark")
	q := NewRequest(r, nil)
	for name, want := range map[string]string{
		"ip": "2001:db8::1", "method": "POST", "path": "/v1//%6Frders", "host": "api.example.com",
		"header:x-plan": "gold", "header:X-PLAN": "gold", "header:host": "API.Example.com.:8080",
		"query:page": "2", "cookie:theme": "dark",
		"api_key": "", "tier": "", "header:x-none": "", "query:none": "", "cookie:none": "", "jwt:sub": "", "": "",
	} {
		if got, ok := q.Attribute(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, want)
		}
	}
}

func TestHostHasNoPort(t *testing.T) {
	for host, want := range map[string]string{"a.example": "a.example", "a.example:80": "a.example", "[::1]:80": "[::1]", "[::1]": "[::1]", "": "", ":80": ""} {
		if got := hostname(host); got != want {
			t.Errorf("%q: %q; want %q", host, got, want)
		}
	}
}

// FuzzQuery compares with the standard library's reading.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "key=1", "k%65y=1&key=2", "key=%zz&key=3", "key;=1&key", "a=b=c&key=x=y", "key=a+b", "k+y=1"} {
		f.Add(seed, "key")
	}
	f.Add("&=0", "")
	f.Fuzz(func(t *testing.T, raw, name string) {
		values, _ := url.ParseQuery(raw)
		if got := query(raw, name); got != values.Get(name) {
			t.Errorf("query(%q, %q) = %q; want %q", raw, name, got, values.Get(name))
		}
	})
}
