package postgresstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/postgresstore"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u@h/db":                             "postgres://u@h:5432/db",
		"postgresql://u:secret@h:6/db?durable=true":     "postgres://u:***@h:6/db?durable=true",
		"postgres://u:p%40%3A%2F%3F%25@h/db":            "postgres://u:***@h:5432/db",
		"postgres://u:se+cret@h/db?password=other":      "postgres://u:***@h:5432/db",
		"postgres://u@a:1,b:2/db?sslmode=disable":       "postgres://u@a:1,b:2/db",
		"postgres://u@h/db?host=/run/postgresql":        "postgres://u@/run/postgresql/db",
		"postgres://u@h/db?schema=limits&timeout=250ms": "postgres://u@h:5432/db",
	} {
		o, err := postgresstore.ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, got := range []string{o.String(), fmt.Sprintf("%v %+v %#v", o, o, o), o.LogValue().String()} {
			if !strings.Contains(got, want) || strings.Contains(got, "secret") {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
	}
	o, err := postgresstore.ParseURL("postgres://u:a+b@h/db?durable=1&schema=limits&timeout=250ms&application_name=x+y&connect_timeout=7")
	if err != nil || !o.Durable || o.Schema != "limits" || o.Timeout != 250*time.Millisecond || o.Pool.MaxConns != 8 {
		t.Fatalf("%+v %v", o, err)
	}
	if c := o.Pool.ConnConfig; c.Password != "a+b" || c.RuntimeParams["application_name"] != "x+y" || c.ConnectTimeout != 7*time.Second || len(c.RuntimeParams) != 1 {
		t.Errorf("%+v", c)
	}
	if o, err = postgresstore.ParseURL("postgres://u@h/db?pool_max_conns=3"); err != nil || o.Pool.MaxConns != 3 {
		t.Error(o.Pool.MaxConns, err)
	}
}

func TestWrongURLs(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"redis://h":                                         "does not begin with postgres://",
		"postgres":                                          "does not begin with postgres://",
		"postgres://u:secret@h:port/db":                     "not a URL of PostgreSQL: the user, the password, a host, a port",
		"postgres://u:se/cret@h/db":                         "not a URL of PostgreSQL",
		"postgres://u@h/db?durable=perhaps":                 "durable is neither true nor false",
		"postgres://u@h/db?timeout=0s":                      "timeout is not a time above 0",
		"postgres://u@h/db?schema=":                         "schema is empty",
		"postgres://u:secret@h/db?durabel=true":             "unknown parameter",
		"postgres://u@h/db?timeout=1s&timeout=2s":           "a parameter is given twice",
		"postgres://u:p?secret=1&secret=2@h/db":             "a parameter is given twice",
		"postgres://u:secret@h/db?pool_max_conns=0":         "URL: pool_max_conns: a value",
		"postgres://u:secret@h/db?connect_timeout=x":        "URL: connect_timeout: a value",
		"postgres://u:secret@h:port/db?sslmode=nonsense":    "not a URL of PostgreSQL: the user",
		"postgres://u@h/db?a=%zz":                           "name=value",
		"postgres://u@h/db?sslmode=nonsense":                "URL: sslmode: a value is not one that PostgreSQL knows",
		"postgres://u@h/db?sslrootcert=/nothing/there.pem":  "URL: sslrootcert: a value is not one that PostgreSQL knows, or names a file that cannot be read",
		"postgres://u@h/db?sslmode=require&sslcert=" + junk: "sslcert, sslkey, sslpassword: a value is not one that PostgreSQL knows, or names a file that cannot be read",
	} {
		_, err := postgresstore.ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || stint.CodeOf(err) != stint.CodeInvalid {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWrongVariables(t *testing.T) {
	t.Setenv("PGSSLROOTCERT", "/nothing/there.pem")
	t.Setenv("PGSSLMODE", "verify-full")
	if _, err := postgresstore.ParseURL("postgres://u@h/db"); err == nil || !strings.Contains(err.Error(), "a variable of the environment whose name begins with PG is wrong") {
		t.Error(err)
	}
}
