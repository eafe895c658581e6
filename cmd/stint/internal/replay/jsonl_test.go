package replay

import (
	"slices"
	"strings"
	"testing"
)

func TestReadObject(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want fields
	}{
		"empty":           {`{}`, nil},
		"plain":           {`{"t_us":12,"key":"a","ok":true,"no":false,"tier":null}`, fields{{"t_us", "12", kindNumber}, {"key", "a", kindText}, {"ok", "true", kindBool}, {"no", "false", kindBool}, {"tier", "null", kindNull}}},
		"spaced":          {" { \"a\" :\t1 , \"b\" : \"\" } ", fields{{"a", "1", kindNumber}, {"b", "", kindText}}},
		"escapes":         {`{"p\u0061th":"\/x\"\\\n\u00e9"}`, fields{{"path", "/x\"\\\né", kindText}}},
		"notASCII":        {`{"key":"é世"}`, fields{{"key", "é世", kindText}}},
		"compounds":       {`{"a":[1, 2],"limit":{"limit":5,"window":"1s"}}`, fields{{"a", "[1, 2]", kindCompound}, {"limit", `{"limit":5,"window":"1s"}`, kindCompound}}},
		"oddNumbers":      {`{"a":-0,"b":1.50,"c":-1e+3}`, fields{{"a", "-0", kindNumber}, {"b", "1.50", kindNumber}, {"c", "-1e+3", kindNumber}}},
		"twice":           {`{"a":1,"a":2}`, fields{{"a", "1", kindNumber}, {"a", "2", kindNumber}}},
		"loneSurrogate":   {`{"a":"\ud800"}`, fields{{"a", "\ufffd", kindText}}},
		"escapedNameOnly": {`{"\n":1}`, fields{{"\n", "1", kindNumber}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readObject(test.line, nil)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %v and %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestReadObjectRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"nothing": "", "notObject": `[1]`, "text": `"a"`, "cut": `{"a":1`, "cutText": `{"a":"b`, "cutEscape": `{"a":"\`,
		"after": `{"a":1} x`, "two": `{"a":1}{"b":2}`, "trailingComma": `{"a":1,}`, "noComma": `{"a":1 "b":2}`,
		"leadingZero": `{"a":01}`, "plus": `{"a":+1}`, "lonePoint": `{"a":1.}`, "NaN": `{"a":NaN}`, "bareWord": `{"a":truer}`,
		"controlCharacter": "{\"a\":\"\x01\"}", "notUTF8": "{\"a\":\"\xff\"}", "wrongEscape": `{"a":"\q"}`, "unquotedName": `{a:1}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := readObject(line, nil); err == nil {
				t.Errorf("%q was read as %v", line, got)
			}
		})
	}
}

// A line in common form must be read without encoding/json, which is slow.
func TestScanObjectKnowsPlainLines(t *testing.T) {
	for _, line := range []string{`{"t_us":1431857103000001,"key":"a","cost":-1,"path":"/x"}`, `{"a":"é","b":"\u0026","c":true,"d":null}`} {
		if _, ok := scanObject(line, nil); !ok {
			t.Errorf("%s is left to encoding/json", line)
		}
	}
}

func FuzzJSONL(f *testing.F) {
	for _, line := range []string{
		`{"t_us":1431857103000001,"key":"a","cost":1,"ip":"192.0.2.1","method":"GET","path":"/x"}`,
		`{"t":"2015-05-17T10:05:03.000001Z","key":"\u00e9\"","cost":-2,"at_us":5,"limit":"10/s"}`,
		`{"a":[{}],"limit":{"limit":5,"window":"1s"},"x":1.5e3,"y":null,"z":true}`, "{\"a\":\"\xc3\"}", `{"a":1,}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			return // ends a line
		}
		scanned, ok := scanObject(line, nil)
		decoded, err := decodeObject(line, nil)
		if ok && (err != nil || !slices.Equal(scanned, decoded)) {
			t.Fatalf("%q: scanned %v, encoding/json says %v and %v", line, scanned, decoded, err)
		}
		var e event
		all, err := readLine(Format{kind: jsonl}, line, &e)
		if err != nil {
			return
		}
		if e.t < 0 || e.t > maxTime || e.at < 0 || e.at > maxTime {
			t.Fatalf("%q: read as %+v, a time out of range", line, e)
		}
		for _, f := range all {
			all.Attribute(f.name)
		}
	})
}

func TestReadEvent(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want event
	}{
		"defaults":         {`{"t_us":5}`, event{t: 5, cost: 1}},
		"RFC3339":          {`{"t":"2015-05-17T12:05:03.0000019+02:00"}`, event{t: 1431857103000001, cost: 1}},
		"t_us goes first":  {`{"t":"2015-05-17T12:05:03Z","t_us":7}`, event{t: 7, cost: 1}},
		"null is absent":   {`{"t_us":5,"cost":null,"limit":null,"at_us":null}`, event{t: 5, cost: 1}},
		"peek":             {`{"t_us":5,"cost":0}`, event{t: 5}},
		"give-back":        {`{"t_us":5,"cost":-3,"at_us":4}`, event{t: 5, cost: -3, at: 4}},
		"limit text":       {`{"t_us":5,"limit":"10/s"}`, event{t: 5, cost: 1, limit: `"10/s"`}},
		"limit number":     {`{"t_us":5,"limit":7}`, event{t: 5, cost: 1, limit: "7"}},
		"small letters":    {`{"t":"1970-01-01t00:00:01z"}`, event{t: 1e6, cost: 1}},
		"limit object":     {`{"t_us":5,"limit":{"limit":1}}`, event{t: 5, cost: 1, limit: `{"limit":1}`}},
		"greatest numbers": {`{"t_us":9007199254740991,"cost":1000000000}`, event{t: maxTime, cost: 1_000_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			var e event
			if _, err := readLine(Format{}, test.line, &e); err != nil || e != test.want {
				t.Errorf("got %+v and %v, want %+v", e, err, test.want)
			}
		})
	}
}

func TestReadEventSaysWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ line, want string }{
		"noTime":         {`{"key":"a"}`, "has no time"},
		"fractionalTime": {`{"t_us":1.5}`, "t_us: 1.5 is not a whole number"},
		"timeText":       {`{"t_us":"5"}`, `t_us: "5" is not a whole number`},
		"before1970":     {`{"t_us":-1}`, "t_us: lies outside the years 1970 to 2255"},
		"after2255":      {`{"t_us":9007199254740992}`, "t_us: lies outside"},
		"notATime":       {`{"t":"yesterday"}`, `t: "yesterday" is not a time`},
		"timeNumber":     {`{"t":5}`, `t: "5" is not a time`},
		"oldTime":        {`{"t":"1969-12-31T23:59:59Z"}`, "t: lies outside"},
		"fractionalCost": {`{"t_us":5,"cost":1.5}`, "cost: 1.5 is not a whole number"},
		"hugeCost":       {`{"t_us":5,"cost":9223372036854775808}`, "cost: 9223372036854775808 is not a whole number of 64 bits"},
		"greatCost":      {`{"t_us":5,"cost":1000000001}`, "cost: 1000000001 is out of range"},
		"forget":         {`{"t_us":5,"cost":-9223372036854775808}`, "cost: -9223372036854775808 is out of range"},
		"costText":       {`{"t_us":5,"cost":"1"}`, `cost: "1" is not a whole number`},
		"atOutOfRange":   {`{"t_us":5,"cost":-1,"at_us":-5}`, "at_us: lies outside"},
		"notJSON":        {`{"t_us":5,`, "is not JSON: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			var e event
			if _, err := readLine(Format{}, test.line, &e); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s…", err, test.want)
			}
		})
	}
}

func TestAttributes(t *testing.T) {
	f, err := readObject(`{"key":"a","n":5,"ok":true,"none":null,"list":[1],"ip":"x","ip":"192.0.2.1","late":"y","late":null}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"key": "a", "api_key": "a", "n": "5", "ok": "true", "ip": "192.0.2.1"} {
		if got, ok := f.Attribute(name); !ok || got != want {
			t.Errorf("%s = %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"none", "list", "late", "absent"} {
		if got, ok := f.Attribute(name); ok {
			t.Errorf("%s = %q, want none", name, got)
		}
	}
}
