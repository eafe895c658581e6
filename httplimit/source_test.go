package httplimit

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

func TestSourcesAreReadAsConfigured(t *testing.T) {
	for _, text := range []string{"bearer", "header:X-Key", "header:X-Key:Token", "query:key", "cookie:key", "jwt:sub"} {
		if s, err := ParseSource(text); err != nil || s.String() != text {
			t.Errorf("ParseSource(%q) = %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "bearer:x", "header", "header:", "header::x", "header:x:", "Bearer", "body:key"} {
		if s, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), "jwt:CLAIM") {
			t.Errorf("ParseSource(%q) = %v, %v; want an error that names the known", text, s, err)
		}
	}
	for text, want := range map[string]string{"heder:X-Key": "header:X-Key", "Bearer": "bearer", "coockie:sid": "cookie:sid"} {
		if _, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), `did you mean "`+want+`"?`) {
			t.Errorf("ParseSource(%q): %v; want %q suggested", text, err, want)
		}
	}
	for _, text := range []string{"header: X-Key", "header:X Key", "header:X-Key:Token:x", "header:X-Key:a b", "cookie:s=1"} {
		if s, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), "without spaces") {
			t.Errorf("ParseSource(%q) = %v, %v; want an error", text, s, err)
		}
	}
}

func TestAPIKey(t *testing.T) {
	custom := []string{"query:key", "cookie:session", "header:x-my-key", "bearer"}
	schemes := []string{"header:authorization:apikey", "header:X-Auth:Token", "header:X-Auth"}
	for name, c := range map[string]struct {
		sources []string
		target  string
		headers []string
		want    string
	}{
		"none":                         {nil, "/", nil, ""},
		"a scheme":                     {schemes, "/", []string{"Authorization: ApiKey sk_1"}, "sk_1"},
		"another scheme":               {schemes, "/", []string{"Authorization: Bearer sk_1"}, ""},
		"no scheme":                    {schemes, "/", []string{"Authorization: sk_1"}, ""},
		"a scheme, else the field":     {schemes, "/", []string{"X-Auth: sk_1"}, "sk_1"},
		"a scheme of another header":   {schemes, "/", []string{"X-Auth: Token sk_1"}, "sk_1"},
		"bearer":                       {nil, "/", []string{"Authorization: Bearer sk_1"}, "sk_1"},
		"the scheme in any case":       {nil, "/", []string{"Authorization: bEARER   sk_1  "}, "sk_1"},
		"bearer before X-API-Key":      {nil, "/", []string{"X-API-Key: sk_2", "Authorization: Bearer sk_1"}, "sk_1"},
		"X-API-Key":                    {nil, "/", []string{"X-API-Key: sk_2"}, "sk_2"},
		"X-API-Key beside other words": {nil, "/", []string{"Authorization: Basic abc", "X-API-Key: sk_2"}, "sk_2"},
		"X-API-Key beside no token":    {nil, "/", []string{"Authorization: Bearer ", "X-API-Key: sk_2"}, "sk_2"},
		"query only when configured":   {nil, "/?key=sk_3", nil, ""},
		"query":                        {custom, "/?a=1&k%65y=sk%5f3&keys=x", []string{"Authorization: Bearer sk_1"}, "sk_3"},
		"query with plus":              {custom, "/?key=a+b", nil, "a b"},
		"query behind a semicolon":     {custom, "/?a=1;key=sk_3", nil, "sk_3"},
		"query before a semicolon":     {custom, "/?key=sk_3;junk", nil, "sk_3"},
		"a tab after the scheme":       {nil, "/", []string{"Authorization: Bearer\tsk_1"}, "sk_1"},
		"space around all":             {nil, "/", []string{"Authorization:  \tBearer \t sk_1\t "}, "sk_1"},
		"a scheme of a longer name":    {nil, "/", []string{"Authorization: Bearer2 sk_1", "X-API-Key: sk_2"}, "sk_2"},
		"the scheme alone":             {nil, "/", []string{"Authorization: Bearer", "X-API-Key: sk_2"}, "sk_2"},
		"an empty X-API-Key":           {nil, "/", []string{"X-API-Key:  "}, ""},
		"space around X-API-Key":       {nil, "/", []string{"X-API-Key: \t sk_2 \t"}, "sk_2"},
		"words in X-API-Key":           {nil, "/", []string{"X-API-Key: a, b"}, "a, b"},
		"the same cookie twice":        {custom, "/", []string{"Cookie: session=sk_4; session=sk_4"}, "sk_4"},
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

// A value that servers read differently is refused, because a client could show each server
// another key.
func TestAPIKeyThatServersReadDifferentlyIsRefused(t *testing.T) {
	custom := []string{"query:key", "cookie:session", "bearer"}
	for name, c := range map[string]struct {
		sources []string
		target  string
		headers []string
	}{
		"several Authorization":           {nil, "/", []string{"Authorization: Bearer sk_1", "Authorization: Bearer sk_2"}},
		"several Authorization, one kind": {nil, "/", []string{"Authorization: Basic abc", "Authorization: Bearer sk_2"}},
		"several X-API-Key":               {nil, "/", []string{"X-API-Key: sk_1", "X-API-Key: sk_2"}},
		"X_API_Key beside X-API-Key":      {nil, "/", []string{"X-API-Key: sk_1", "X_API_Key: sk_2"}},
		"X_API-Key alone":                 {nil, "/", []string{"X_API-KEY: sk_2"}},
		"two tokens":                      {nil, "/", []string{"Authorization: Bearer sk_1 sk_2"}},
		"two tokens behind tabs":          {nil, "/", []string{"Authorization: Bearer\tsk_1\tsk_2"}},
		"tokens joined by a comma":        {nil, "/", []string{"Authorization: Bearer sk_1,sk_2"}},
		"lines joined by a comma":         {nil, "/", []string{"Authorization: Bearer sk_1, Bearer sk_2"}},
		"a comma after the scheme":        {nil, "/", []string{"Authorization: Bearer,sk_1"}},
		"a colon after the scheme":        {nil, "/", []string{"Authorization: Bearer:sk_1"}},
		"a space of Latin-1":              {nil, "/", []string{"Authorization: Bearer\xa0sk_1"}},
		"a space of Unicode":              {nil, "/", []string{"Authorization: Bearer\u00a0sk_1"}},
		"a space of Latin-1 in the token": {nil, "/", []string{"Authorization: Bearer sk_1\xa0junk"}},
		"a token beyond ASCII":            {nil, "/", []string{"Authorization: Bearer clé"}},
		"beside a good key":               {nil, "/", []string{"Authorization: Bearer a b", "X-API-Key: sk_2"}},
		"query twice":                     {custom, "/?key=sk_1&key=sk_2", nil},
		"query twice, the same":           {custom, "/?key=sk_1&key=sk_1", nil},
		"query twice, encoded":            {custom, "/?key=sk_1&a=b&%6bey=sk_2", nil},
		"query twice, by semicolons":      {custom, "/?key=sk_1;key=sk_2", nil},
		"query twice, once empty":         {custom, "/?key&key=sk_2", nil},
		"query that cannot be decoded":    {custom, "/?key=%zz", nil},
		"two values of a cookie":          {custom, "/", []string{"Cookie: session=a; session=b"}},
		"two values in two lines":         {custom, "/", []string{"Cookie: session=a", "Cookie: session=b"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewRequest(httptest.NewRequest("GET", c.target, nil), &Identity{APIKey: sources(t, c.sources...)})
			q.Header = from("", c.headers...).Header
			if got, ok := q.Attribute("api_key"); got != "" || ok {
				t.Errorf("api_key %q", got)
			}
			var coded *stint.Error
			if err := q.Refusal("api_key"); !errors.As(err, &coded) || coded.Code != stint.CodeInvalid || strings.Contains(err.Error(), "sk_") {
				t.Errorf("refused with %v", err)
			}
			if _, err := counting(t, fixed(t), Options{By: []string{"api_key"}}).PartKey(0, q); err == nil {
				t.Error("it is counted")
			}
		})
	}
}

func TestLinesOfAListAreOneList(t *testing.T) {
	q := NewRequest(from("", "Accept: a", "Accept: b", "X-Plan: gold", "X-Plan: free", "Cookie: a=1", "Cookie: b=2"), nil)
	for name, want := range map[string]string{"header:accept": "a, b", "header:cookie": "a=1; b=2", "header:x-plan": ""} {
		got, _ := q.Attribute(name)
		if err := q.Refusal(name); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
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

// FuzzQuery compares query with the standard library.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "key=1", "k%65y=1&key=2", "key=%zz&key=3", "key;=1&key", "a=b=c&key=x=y", "key=a+b", "k+y=1"} {
		f.Add(seed, "key")
	}
	f.Add("&=0", "")
	f.Fuzz(func(t *testing.T, raw, name string) {
		raw = strings.ReplaceAll(raw, ";", "&")
		values, _ := url.ParseQuery(raw)
		got, err := query(raw, name)
		switch n := len(values[name]); {
		case n > 1 && err == nil:
			t.Errorf("query(%q, %q) = %q; there are %d", raw, name, got, n)
		case err == nil && got != values.Get(name):
			t.Errorf("query(%q, %q) = %q; want %q", raw, name, got, values.Get(name))
		case n == 1 && err != nil && strings.Count(raw, "&") == 0:
			t.Errorf("query(%q, %q): %v", raw, name, err)
		}
	})
}
