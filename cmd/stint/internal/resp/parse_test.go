package resp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for sent, want := range map[string]string{
		"*1\r\n$4\r\nPING\r\nrest":       "14 [PING]",
		"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n": "20 [ECHO ]",
		"*01\r\n$+4\r\nPING\r\n":         "16 [PING]",
		"*0\r\n":                         "4 []",
		"*-1\r\n":                        "5 []",
		"*-9\r\n":                        "5 []",
		"":                               "0 []",
		"*":                              "0 []",
		"*2\r\n$4\r\nECHO\r\n$":          "0 [ECHO]",
		"*1\r\n$4\r\nPING\r":             "0 []",
		"PING\r\n":                       "6 [PING]",
		"PING\n":                         "5 [PING]",
		"  a  b\tc \r\n":                 "11 [a b c]",
		"\r\n":                           "2 []",
		`a "b c" 'd e' "\x41\n\"" 'it\'s' ""` + "\n": "36 [a b c d e A\n\" it's ]",
		`a "b`:                                   "0 []",
		`a "b` + "\n":                            "unbalanced quotes in request",
		`a "b"c` + "\n":                          "unbalanced quotes in request",
		"*1\r\n$-1\r\n":                          "invalid bulk length",
		"*1\r\n$65537\r\n":                       "invalid bulk length",
		"*1\r\n$99999999999999999999\r\n":        "invalid bulk length",
		"*1\r\n$x\r\n":                           "invalid bulk length",
		"*1\r\n$" + strings.Repeat("0", 40):      "invalid bulk length",
		"*1025\r\n":                              "invalid multibulk length",
		"*2147483648\r\n":                        "invalid multibulk length",
		"*9223372036854775808\r\n":               "invalid multibulk length",
		"*\r\n":                                  "invalid multibulk length",
		"*1\n":                                   "expected a line to end with CRLF",
		"*1\r\n$4\r\nPINGxx":                     "expected a line to end with CRLF",
		"*1\r\n*1\r\n$4\r\nPING\r\n":             "expected '$', got '*'",
		"*1\r\n:1\r\n":                           "expected '$', got ':'",
		strings.Repeat("a", maxCommand):          "too big inline request",
		strings.Repeat("a ", maxArgs+1) + "\r\n": "invalid multibulk length",
		"*2\r\n$65000\r\n" + strings.Repeat("a", 65000) + "\r\n$600\r\n" + strings.Repeat("b", 599): "too big request",
	} {
		var p parser
		n, err := p.next([]byte(sent))
		got := fmt.Sprintf("%d %s", n, p.args)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60q: %.100q, want %q", sent, got, want)
		}
	}
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0 true", "-0": "0 true", "+7": "7 true", "-12": "-12 true", "007": "7 true",
		"9223372036854775807": "9223372036854775807 true", "-9223372036854775808": "-9223372036854775808 true",
		"00000000000000000000012": "12 true", "9223372036854775808": "9223372036854775807 false",
		"": "0 false", "-": "0 false", "+": "0 false", "+-1": "0 false", "1_0": "0 false", "0x1": "0 false", "１": "0 false",
	} {
		if n, ok := parseInt([]byte(text)); fmt.Sprint(n, ok) != want {
			t.Errorf("%q: %d %v, want %s", text, n, ok, want)
		}
	}
}

// FuzzParse checks that the parser accepts a command, asks for more or refuses, and
// that a command that arrives in two parts is parsed alike.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		words("CL.THROTTLE user 15 30 60 1"), "PING \"a\\x41\" 'b'\r\n", "*1\r\n$-1\r\n", "*1000000\r\n", "*2\r\n*1\r\n$1\r\na\r\n", "*0\r\n", "\r\n", "$5\r\nhello\r\n",
	} {
		f.Add([]byte(seed), uint(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint) {
		var p, q parser
		n, err := p.next(bytes.Clone(data))
		if n < 0 || n > len(data) || err != nil && n != 0 && data[0] == '*' || len(p.args) > maxArgs {
			t.Fatalf("took %d of %d bytes, %d args, %v", n, len(data), len(p.args), err)
		}
		if err != nil || n == 0 {
			return
		}
		if m, err := q.next(bytes.Clone(data[:n])); m != n || err != nil || fmt.Sprintf("%q", q.args) != fmt.Sprintf("%q", p.args) {
			t.Fatalf("%q alone: %d, %v, %q; with more behind it: %d, %q", data[:n], m, err, q.args, n, p.args)
		}
		if m, err := q.next(bytes.Clone(data[:cut%uint(n)])); m != 0 || err != nil {
			t.Fatalf("a part of %q: %d, %v", data[:n], m, err)
		}
	})
}
