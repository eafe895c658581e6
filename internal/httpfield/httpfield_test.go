package httpfield

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
)

func TestLinesAreApart(t *testing.T) {
	for _, c := range []struct {
		name, joined string
		want         []string
	}{
		{"X-Api-Key", "a", []string{"a"}},
		{"X-Api-Key", "a,b", []string{"a", "b"}},
		{"X-Api-Key", "a, b\t", []string{"a", "b"}},
		{"X-Api-Key", "a,", []string{"a", ""}},
		{"X-Api-Key", ",a", []string{"", "a"}},
		{"X-Tenant", `"a,b"`, []string{`"a`, `b"`}},
		{"Accept", "a,b", []string{"a,b"}},
		{"User-Agent", "x (y, like z)", []string{"x (y, like z)"}},
		{"Sec-Ch-Ua", `"a";v="1", "b"`, []string{`"a";v="1", "b"`}},
		{"Authorization", "Bearer a,Bearer b", []string{"Bearer a", "Bearer b"}},
		{"Authorization", "Bearer a,b", []string{"Bearer a", "b"}},
		{"Authorization", `Digest username="a", uri = "/"`, []string{`Digest username="a", uri = "/"`}},
		{"Authorization", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;date,Signature=c", []string{"AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;date,Signature=c"}},
		{"Authorization", `Digest username="a", realm="b,Bearer c`, []string{`Digest username="a", realm="b`, "Bearer c"}},
		{"Authorization", `Digest ",Bearer c`, []string{`Digest "`, "Bearer c"}},
		{"Authorization", "Digest a=b,=Bearer c", []string{"Digest a=b", "=Bearer c"}},
		{"Authorization", "Digest a=b,Bearer", []string{"Digest a=b", "Bearer"}},
		{"Authorization", "Digest a=b,", []string{"Digest a=b", ""}},
	} {
		if got := Separate(http.Header{c.name: {c.joined}})[c.name]; !slices.Equal(got, c.want) {
			t.Errorf("%s: %s: %q, want %q", c.name, c.joined, got, c.want)
		}
	}
}

func TestSeparate(t *testing.T) {
	plain := http.Header{"X-Api-Key": {"a"}, "Accept": {"a,b"}}
	if got := Separate(plain); reflect.ValueOf(got).Pointer() != reflect.ValueOf(plain).Pointer() {
		t.Errorf("%v was copied", got)
	}
	joined := http.Header{"X-Api-Key": {"a,b", "c"}, "Accept": {"a,b"}, "X-Plan": {"gold"}}
	want := http.Header{"X-Api-Key": {"a", "b", "c"}, "Accept": {"a,b"}, "X-Plan": {"gold"}}
	if got := Separate(joined); !reflect.DeepEqual(got, want) || len(joined["X-Api-Key"]) != 2 {
		t.Errorf("%v of %v, want %v", got, joined, want)
	}
}
