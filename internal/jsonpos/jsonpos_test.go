package jsonpos

import (
	"fmt"
	"strings"
	"testing"
)

func describe(v *Value) string {
	items := make([]string, len(v.Items))
	for i, item := range v.Items {
		items[i] = describe(item)
	}
	return fmt.Sprintf("%d:%d %d%q[%s]", v.Line, v.Column, v.Kind, v.Text, strings.Join(items, " "))
}

func TestValuesHaveTheirPositionsAndText(t *testing.T) {
	got := describe(Parse([]byte("{\n\t\"a\" : [1.50, null,\n true], \"b\":\"\\u00e4\"}")))
	const want = `1:1 4""[2:2 2"a"[] 2:8 3""[2:9 1"1.50"[] 2:15 0""[] 3:2 1"true"[]] 3:9 2"b"[] 3:13 2"ä"[]]`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDocumentsAreValidAndNotNull(t *testing.T) {
	for text, want := range map[string]bool{"{}": true, " [1] ": true, `"a"`: true, "null": false, " null\n": false, "": false, "{": false, "a: b": false} {
		if got := IsDocument([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
