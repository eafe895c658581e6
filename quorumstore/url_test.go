package quorumstore

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func TestParseURL(t *testing.T) {
	three := []string{"a:6379", "b:6379", "c:6379"}
	for text, want := range map[string]Options{
		"redis-quorum://a,b,c":                         {Servers: three},
		"redis-quorum://A,b:6379,c/":                   {Servers: three},
		"redis-quorum://a,b,c/7?timeout=250ms":         {Servers: three, DB: 7, Timeout: 250 * time.Millisecond},
		"redis-quorum://[::1],[::1]:6380,10.0.0.1":     {Servers: []string{"[::1]:6379", "[::1]:6380", "10.0.0.1:6379"}},
		"redis-quorum://user:p%40ss@a,b,c":             {Servers: three, Username: "user", Password: "p@ss"},
		"redis-quorum://:pass@a,b,c":                   {Servers: three, Password: "pass"},
		"redis-quorum://a,b,c,d:1,e:2":                 {Servers: append(three[:3:3], "d:1", "e:2")},
		"rediss-quorum://a,b,c?tls_server_name=host":   {Servers: three},
		"rediss-quorum://a,b,c/?tls_skip_verify=false": {Servers: three},
	} {
		got, err := ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if (got.TLS != nil) != strings.HasPrefix(text, "rediss") {
			t.Errorf("%s: TLS is %v", text, got.TLS)
		}
		got.TLS = nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", text, got)
		}
		if err := got.setDefaults(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestWrongURLs(t *testing.T) {
	for text, want := range map[string]string{
		"redis://a,b,c":                                   "does not begin with redis-quorum://",
		"redis-quorum":                                    "does not begin with redis-quorum://",
		"redis-quorum://":                                 "address 1 is not host:port",
		"redis-quorum://a":                                "it names 1 servers",
		"redis-quorum://a,b,c,d":                          "an even number survives no more",
		"redis-quorum://a,b,c,d,e,f,g,h,i":                "it names 9 servers",
		"redis-quorum://a,b,a:6379":                       "the server a:6379 is named twice",
		"redis-quorum://a,b,c:0":                          "address 3 is not host:port",
		"redis-quorum://a,b,c:70000":                      "address 3 is not host:port",
		"redis-quorum://secret%zz@a,b,c":                  "two hexadecimal digits",
		"redis-quorum://a,b,c/x":                          "the database is not a number",
		"redis-quorum://a,b,c?timeout=0s":                 "timeout is not a time above 0",
		"redis-quorum://a,b,c?timeout=1h":                 "timeout is not a time above 0",
		"redis-quorum://a,b,c?timeout=1s&timeout=2s":      "a parameter is given twice",
		"redis-quorum://a,b,c?db=1":                       "unknown parameter",
		"redis-quorum://a,b,c?tls_ca=x":                   "begin it with rediss-quorum",
		"rediss-quorum://a,b,c?tls_ca=/no/such/file":      "/no/such/file",
		"rediss-quorum://a,b,c?tls_skip_verify=perhaps":   "neither true nor false",
		"redis-quorum://user:secret@a,b,c?secret=%zz":     "the query is not name=value",
		"redis-quorum://user:secret@a,b,c?replica=secret": "unknown parameter",
	} {
		_, err := ParseURL(text)
		wantError(t, err, stint.CodeInvalid, "url", want)
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"Servers has 2 servers":   func(o *Options) { o.Servers = o.Servers[:2] },
		"Servers names a:1 twice": func(o *Options) { o.Servers[2] = "a:1" },
		"Servers[1] is not":       func(o *Options) { o.Servers[1] = "b" },
		"Prefix is longer":        func(o *Options) { o.Prefix = "a b" },
		"Prefix has a colon":      func(o *Options) { o.Prefix = "stint:#2" },
		"Timeout, KeepFor":        func(o *Options) { o.KeepFor = -1 },
		"longer than a minute":    func(o *Options) { o.Timeout = time.Hour },
		"Conns is not":            func(o *Options) { o.Conns = -1 },
		"DB is below 0":           func(o *Options) { o.DB = -1 },
	} {
		o := Options{Servers: []string{"a:1", "b:1", "c:1"}}
		change(&o)
		_, err := New(o)
		wantError(t, err, stint.CodeInvalid, "options", want)
	}
}

func TestOptionsHidePasswords(t *testing.T) {
	o := Options{Servers: []string{"a:1", "b:1", "c:1"}, Username: "user", Password: "secret", DB: 3}
	for _, text := range []string{o.String(), fmt.Sprintf("%v %+v %#v", o, o, o), o.LogValue().String()} {
		if !strings.Contains(text, "redis-quorum://user:***@a:1,b:1,c:1/3") || strings.Contains(text, "secret") {
			t.Error(text)
		}
	}
	if text := (Options{Servers: o.Servers, Username: "secret"}).String(); strings.Contains(text, "secret") {
		t.Error(text)
	}
}

func TestTheZeroStoreFails(t *testing.T) {
	for _, s := range []*Store{nil, {}} {
		if _, err := s.Take(t.Context(), stint.Claim{}); err == nil {
			t.Error("it decides")
		}
		if err := s.TakeGroups(t.Context(), nil, nil); err == nil {
			t.Error("it decides groups")
		}
		if err := s.Close(); err != nil || s.NodeCount() != 1 || s.Shards() != nil || s.Metrics() != nil || s.Stats().Up || s.String() == "" {
			t.Errorf("%v: %v", s, err)
		}
	}
}
