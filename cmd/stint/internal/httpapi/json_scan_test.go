package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzScan compares the members that eachMember finds in an object with those that encoding/json
// finds.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a" : [1,{"b":"}"}] , "c":"\"]}" }`, `{"a":-1.5e3,"b":true,"c":null}`, `{"a":"\\"}`, `[1]`, `"x"`, `{"":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]json.RawMessage
		if !json.Valid(data) || !utf8.Valid(data) {
			return // not a valid body: readBody refuses it
		}
		isObject := json.Unmarshal(data, &want) == nil && want != nil
		got := map[string]json.RawMessage{}
		err := eachMember(data, func(name, raw []byte) error {
			got[string(name)] = raw
			return nil
		})
		if err == nil != isObject && !refusesMore(err) {
			t.Fatalf("%s: %v", data, err)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s, want %s", data, got, want)
		}
	})
}

// refusesMore reports whether the error is about what encoding/json lets pass.
func refusesMore(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "twice") || strings.Contains(err.Error(), "surrogate"))
}
