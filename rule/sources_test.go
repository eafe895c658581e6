package rule

import (
	"slices"
	"strings"
	"testing"
)

func TestIdentityOfAFile(t *testing.T) {
	for text, want := range map[string]string{
		"identity: bearer": "",
		"identity: [bearer, 'header:X-Key', 'header:Authorization:ApiKey', 'query:key', 'cookie:sid', 'jwt:sub']": "",
		"identity: [bearer, beerer]": "f.yaml:1:20: identity: \"beerer\" is no source of an API key (did you mean bearer?",
		"identity: ['bearer:x']":     "is no source",
		"identity: ['header:']":      "is no source",
		"identity: ['header:a b']":   "is no source",
		"identity: ['header:a:b:c']": "is no source",
		"identity: ['cookie:a=b']":   "is no source",
		"identity: ['jwt:']":         "is no source",
		"identity: [bearer, bearer]": "named twice",
		"identity: []":               "is empty",
		"identity: {jwt: sub}":       "f.yaml:1:11: ",
		"identiti: bearer":           "identity",
		"identity: [" + strings.Repeat("'query:a', ", 16) + "bearer]": "more than 16",
	} {
		_, err := Parse(File{Name: "f.yaml", Data: []byte(text + "\nrules: []\n")})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	_, err := Parse(File{Name: "a.yaml", Data: []byte("identity: bearer")}, File{Name: "b.yaml", Data: []byte("identity: bearer")})
	if err == nil || !strings.Contains(err.Error(), "b.yaml:1:11: identity is given twice") {
		t.Errorf("two files: %v", err)
	}
	set, err := Parse(File{Name: "a.yaml", Data: []byte("identity: ['jwt:sub', bearer]")})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.WithPathEncoding(PathKeep).Identity(); !slices.Equal(got, []string{"jwt:sub", "bearer"}) {
		t.Errorf("identity %q", got)
	}
	if got := (*Set)(nil).Identity(); got != nil {
		t.Errorf("identity of a nil set: %q", got)
	}
}
