package memcachedstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string][]string{
		"memcached://cache":                             {"cache:11211"},
		"memcached://cache/":                            {"cache:11211"},
		"memcached://10.0.0.1,10.0.0.2:11212":           {"10.0.0.1:11211", "10.0.0.2:11212"},
		"memcached://[::1],[fd00::7]:11212":             {"[::1]:11211", "[fd00::7]:11212"},
		"memcached://Cache-1.Example.com?timeout=250ms": {"cache-1.example.com:11211"},
	} {
		o, err := ParseURL(text)
		if err != nil || !slices.Equal(o.Servers, want) || o.Timeout != 0 && o.Timeout != 250*time.Millisecond {
			t.Errorf("%s: %v %v", text, o.Servers, err)
		}
		if got := fmt.Sprint(o); got != "memcached://"+strings.Join(want, ",") {
			t.Error(got)
		}
	}
}

func TestWrongURLs(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h":                           "does not begin with memcached://",
		"memcached://":                        "a server is empty",
		"memcached://a,,b":                    "a server is empty",
		"memcached://:11211":                  "a server is empty",
		"memcached://a b":                     "a server is empty",
		"memcached://::1":                     "a server is empty",
		"memcached://a:0":                     "not a number from 1 to 65535",
		"memcached://a:99999":                 "not a number from 1 to 65535",
		"memcached://user:secret@a":           "no credentials for Memcached",
		"memcached://a/0":                     "has a path",
		"memcached://a,A:11211":               "named twice",
		"memcached://a?timeout=0s":            "not a time above 0",
		"memcached://a?timeout=1s&timeout=2s": "given twice",
		"memcached://a?sasl=1":                "unknown parameter",
		"memcached://a?%zz":                   "name=value",
	} {
		_, err := ParseURL(text)
		if stint.CodeOf(err) != stint.CodeInvalid || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	one := []string{"h:11211"}
	for want, o := range map[string]Options{
		"no server":        {},
		"more than 100":    {Servers: make([]string, 101)},
		"names a server":   {Servers: []string{"h:1", "h:1"}},
		"not host:port":    {Servers: []string{"h"}},
		"Prefix is longer": {Servers: one, Prefix: strings.Repeat("p", 65)},
		"or has a space":   {Servers: one, Prefix: "a b"},
		"Timeout":          {Servers: one, Timeout: -1},
		"KeepFor":          {Servers: one, KeepFor: -1},
		"CallerBytes":      {Servers: one, CallerBytes: -1},
		"Conns":            {Servers: one, Conns: 1001},
	} {
		if _, err := New(o); stint.CodeOf(err) != stint.CodeInvalid || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestStoreThatNewDidNotMake(t *testing.T) {
	for _, s := range []*Store{nil, {}} {
		if _, err := s.Take(t.Context(), stint.Claim{}); !errors.Is(err, errNotMade) {
			t.Error(err)
		}
		if err := s.TakeGroups(t.Context(), nil, nil); !errors.Is(err, errNotMade) {
			t.Error(err)
		}
		if s.Stats().Up || s.Metrics() != nil || s.NodeCount() != 1 || s.Shards() != nil || s.Close() != nil || s.String() != "memcachedstore: none" {
			t.Error("a store that New did not make answers")
		}
	}
}
