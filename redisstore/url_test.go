package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

func TestURLsAreRead(t *testing.T) {
	for text, want := range map[string]Options{
		"redis://localhost":                      {Addrs: []string{"localhost:6379"}},
		"redis://localhost/":                     {Addrs: []string{"localhost:6379"}},
		"REDIS://localhost:7000/3":               {Addrs: []string{"localhost:7000"}, DB: 3},
		"redis://:pw@h:1":                        {Addrs: []string{"h:1"}, Password: "pw"},
		"redis://u:p%40%3A%2F%25@h:1/0":          {Addrs: []string{"h:1"}, Username: "u", Password: "p@:/%"},
		"redis://u:a@b@h:1":                      {Addrs: []string{"h:1"}, Username: "u", Password: "a@b"},
		"redis://u:a:b@h:1":                      {Addrs: []string{"h:1"}, Username: "u", Password: "a:b"},
		"redis://[::1]:7000":                     {Addrs: []string{"[::1]:7000"}},
		"redis://[::1]":                          {Addrs: []string{"[::1]:6379"}},
		"redis://h?timeout=250ms":                {Addrs: []string{"h:6379"}, Timeout: 250 * time.Millisecond},
		"redis://h?replica_timeout=1s":           {Addrs: []string{"h:6379"}, ReplicaTimeout: time.Second},
		"redis+unix:///run/redis.sock":           {Addrs: []string{"/run/redis.sock"}},
		"Redis+Unix:///run/a%3Fb%25.sock?db=3":   {Addrs: []string{"/run/a?b%.sock"}, DB: 3},
		"redis+unix://:p%2Fw@/run/s?timeout=1s":  {Addrs: []string{"/run/s"}, Password: "p/w", Timeout: time.Second},
		"redis+unix://u:p@/run/redis.sock?db=0":  {Addrs: []string{"/run/redis.sock"}, Username: "u", Password: "p"},
		"redis-cluster://a:1,b:2,c":              {Topology: Cluster, Addrs: []string{"a:1", "b:2", "c:6379"}},
		"redis-cluster://u:p@a:1,b:2/0":          {Topology: Cluster, Addrs: []string{"a:1", "b:2"}, Username: "u", Password: "p"},
		"redis-sentinel://a:1,b/mymaster":        {Topology: Sentinel, Addrs: []string{"a:1", "b:26379"}, Master: "mymaster"},
		"redis-sentinel://u:p@a:1/my%20master/2": {Topology: Sentinel, Addrs: []string{"a:1"}, Master: "my master", Username: "u", Password: "p", DB: 2},
		"redis-sentinel://a:1/m?sentinel_username=x&sentinel_password=y%26+%20": {
			Topology: Sentinel, Addrs: []string{"a:1"}, Master: "m", SentinelUsername: "x", SentinelPassword: "y&+ ",
		},
	} {
		got, err := ParseURL(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", text, got, err)
		}
	}
}

func TestURLsWithTLS(t *testing.T) {
	for text, topology := range map[string]Topology{
		"rediss://h": Single, "rediss-cluster://h,i": Cluster, "rediss-sentinel://h/m": Sentinel,
	} {
		o, err := ParseURL(text + "?tls_server_name=name&tls_skip_verify=true")
		if err != nil || o.TLS == nil || o.Topology != topology {
			t.Fatal(text, o, err)
		}
		if o.TLS.ServerName != "name" || !o.TLS.InsecureSkipVerify {
			t.Errorf("%s: %+v", text, o.TLS)
		}
	}
}

func TestURLNamesTheAuthoritiesToTrust(t *testing.T) {
	server, _ := redistest.ServerTLS(t)
	files, err := filepath.Glob(filepath.Join(server.Dir(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	ca := ""
	for _, f := range files {
		if pem, err := os.ReadFile(f); err == nil && strings.Contains(string(pem), "BEGIN CERTIFICATE") {
			ca = f
		}
	}
	o, err := ParseURL("rediss://" + server.Addr() + "?tls_ca=" + ca)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := count(t, newTestTopology(t, o), "k"); err != nil {
		t.Error(err)
	}
}

const inURL = "s3cr3t"

func TestErrorsOfURLsNeverShowThePassword(t *testing.T) {
	for _, text := range []string{
		"", "localhost", ":" + inURL + "@h", "http://u:" + inURL + "@h", "redis:///", "redis://", "redis://u:" + inURL + "@",
		"redis://u:" + inURL + "@h:port", "redis://u:" + inURL + "@h:0", "redis://u:" + inURL + "@h:70000",
		"redis://u:" + inURL + "/x@h:1", "redis://u:" + inURL + "%zz@h:1", "redis://u:" + inURL + "?x@h:1",
		"redis://u:" + inURL + "@h/db", "redis://u:" + inURL + "@h/-1", "redis://u:" + inURL + "@h:1,i:2", "redis://u:" + inURL + "@a b:1",
		"redis-cluster://u:" + inURL + "@h/1", "redis-cluster://u:" + inURL + "@h,,i", "redis-sentinel://u:" + inURL + "@h", "redis-sentinel://u:" + inURL + "@h/",
		"redis://h?password=" + inURL, "redis://h?" + inURL + "=1", "redis://h?timeout=" + inURL, "redis://h?timeout=-1s", "redis://h?timeout=0s",
		"redis://h?tls_ca=x", "rediss://h?tls_ca=/does/not/exist", "rediss://h?tls_cert=/does/not/exist&tls_key=/neither", "rediss://h?tls_skip_verify=maybe",
		"redis-other://u:" + inURL + "@h", "redis://h?%zz=" + inURL, "redis://fe80::1:" + inURL + ":x", "redis://u:" + inURL + "@h@i:1:2",
		"redis+unix://", "redis+unix:///", "redis+unix://run/redis.sock", "redis+unix:///run/", "redis+unix://:" + inURL + "/x@/run/redis.sock",
		"redis+unix:///run/%zz" + inURL, "redis+unix:///s?db=" + inURL, "redis+unix:///s?tls_ca=x", "redis://h?db=1", "rediss+unix:///s", "redis+unix-cluster:///s",
		"redis://u:" + inURL + "@[::1/0", "redis://u:" + inURL + "@::1]", "redis://u:" + inURL + "@[localhost",
	} {
		_, err := ParseURL(text)
		var e *stint.Error
		if !errors.As(err, &e) || e.Code != stint.CodeInvalid || e.Kind != "url" {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if strings.Contains(err.Error(), inURL) {
			t.Errorf("the error of %s shows the password: %v", text, err)
		}
	}
}

func TestOptionsNeverShowThePassword(t *testing.T) {
	o, err := ParseURL("redis-sentinel://user:" + inURL + "@a:1,b:2/m/4?sentinel_password=" + inURL)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	slog.New(slog.NewJSONHandler(&text, nil)).Info("", "store", o)
	shown := fmt.Sprintf("%v %+v %#v %s %q %v", o, o, o, o, o, &o) + text.String()
	if strings.Contains(shown, inURL) {
		t.Error(shown)
	}
	if want := "redis-sentinel://user:***@a:1,b:2/m/4"; o.String() != want {
		t.Errorf("%s; want %s", o, want)
	}
	again, err := ParseURL(strings.ReplaceAll(o.String(), "***", inURL))
	if err != nil || again.Master != "m" || again.DB != 4 {
		t.Error(again, err)
	}
}

func TestAUserWithoutAPasswordIsNotShown(t *testing.T) {
	o, err := ParseURL("redis://" + inURL + "@h/2")
	if err != nil || o.Username != inURL {
		t.Fatal(err)
	}
	if want := "redis://***@h:6379/2"; o.String() != want {
		t.Errorf("%s; want %s", o, want)
	}
}

func TestAUnixSocketIsPrintedAsItsURL(t *testing.T) {
	for url, want := range map[string]string{
		"redis+unix:///run/redis.sock?db=0":                "redis+unix:///run/redis.sock",
		"redis+unix://u:" + inURL + "@/run/a%3F.sock?db=2": "redis+unix://u:***@/run/a%3F.sock?db=2",
	} {
		o, err := ParseURL(url)
		if err != nil || o.String() != want {
			t.Errorf("%s: %s (%v); want %s", url, o, err, want)
		}
		again, err := ParseURL(o.String())
		if err != nil || !reflect.DeepEqual(again.Addrs, o.Addrs) || again.DB != o.DB {
			t.Errorf("%s is read as %#v (%v)", o, again, err)
		}
	}
}

func TestErrorsOfUnixSocketURLsNameTheMend(t *testing.T) {
	for url, want := range map[string]string{
		"redis+unix://run/redis.sock":          "a Unix socket has no host (write its path behind three slashes, redis+unix:///run/redis.sock",
		"redis+unix://":                        "the path of the Unix socket is missing",
		"redis+unix:///s?db=x":                 "db is not the number of a database, such as 0",
		"redis+unix:///s?tls_skip_verify=true": "tls_skip_verify with a Unix socket (leave it out",
		"redis://h?db=1":                       "db without a Unix socket (write the database behind the address: redis://host:6379/1)",
	} {
		if _, err := ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", url, err, want)
		}
	}
}

func TestParametersOfURLsAreUniqueAndInPairs(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h?timeout=1s&timeout=2s": "timeout is given twice",
		"rediss://h?tls_cert=a.pem":       "only one of them is given",
		"rediss://h?tls_key=a.pem":        "only one of them is given",
	} {
		if _, err := ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", url, err, want)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	addr := []string{"h:1"}
	for name, o := range map[string]Options{
		"no address":               {},
		"address without port":     {Addrs: []string{"h"}},
		"TLS with a Unix socket":   {Addrs: []string{"/run/redis.sock"}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
		"Unix socket of a cluster": {Addrs: []string{"/run/redis.sock"}, Topology: Cluster},
		"several single servers":   {Addrs: []string{"h:1", "i:1"}},
		"unknown topology":         {Addrs: addr, Topology: 9},
		"sentinels without master": {Addrs: addr, Topology: Sentinel},
		"database in a cluster":    {Addrs: addr, Topology: Cluster, DB: 1},
		"negative database":        {Addrs: addr, DB: -1},
		"negative timeout":         {Addrs: addr, Timeout: -1},
		"negative replica timeout": {Addrs: addr, ReplicaTimeout: -1},
		"negative time to keep":    {Addrs: addr, KeepFor: -1},
		"prefix that picks a slot": {Addrs: addr, Prefix: "{x}"},
	} {
		_, err := New(o)
		var e *stint.Error
		if !errors.As(err, &e) || e.Code != stint.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStoreIsPrintedWithoutItsPassword(t *testing.T) {
	s := open(t, Options{Addrs: []string{"127.0.0.1:1"}, Username: "ann", Password: "hunter2"})
	if text := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); strings.Contains(text, "hunter2") || !strings.Contains(text, "redis://ann:***@127.0.0.1:1") {
		t.Error(text)
	}
}
