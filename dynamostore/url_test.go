package dynamostore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/internal/dynamotest"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]dynamostore.Options{
		"dynamodb://limits":                                        {Table: "limits"},
		"dynamodb://my.limits-1_b/?region=eu-west-1":               {Table: "my.limits-1_b", Region: "eu-west-1"},
		"dynamodb://limits?endpoint=http://127.0.0.1:8000":         {Table: "limits", Endpoint: "http://127.0.0.1:8000"},
		"dynamodb://limits?endpoint=https%3A%2F%2Fhost&timeout=3s": {Table: "limits", Endpoint: "https://host", Timeout: 3 * time.Second},
		"dynamodb://limits?transactions=false&region=us-east-1":    {Table: "limits", Region: "us-east-1", NoTransactions: true},
		"dynamodb://limits?transactions=true":                      {Table: "limits"},
	} {
		got, err := dynamostore.ParseURL(text)
		if err != nil || got.Table != want.Table || got.Region != want.Region || got.Endpoint != want.Endpoint || got.NoTransactions != want.NoTransactions || got.Timeout != want.Timeout {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	o, err := dynamostore.ParseURL("dynamodb://limits?transactions=false&region=eu-west-1&endpoint=http://127.0.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	o.Config = &aws.Config{Credentials: static{SecretAccessKey: "secret"}}
	for _, got := range []string{o.String(), fmt.Sprintf("%v %+v %#v", o, o, o), o.LogValue().String()} {
		if !strings.Contains(got, "dynamodb://limits?endpoint=http://127.0.0.1:8000&region=eu-west-1&transactions=false") || strings.Contains(got, "secret") {
			t.Error(got)
		}
	}
}

// static are credentials that are their own provider.
type static aws.Credentials

func (c static) Retrieve(context.Context) (aws.Credentials, error) { return aws.Credentials(c), nil }

func TestWrongURLs(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h":                                     "does not begin with dynamodb://",
		"dynamodb":                                      "does not begin with dynamodb://",
		"dynamodb://":                                   "does not name a table",
		"dynamodb://li":                                 "does not name a table",
		"dynamodb://limits/more":                        "does not name a table",
		"dynamodb://id:secret@limits":                   "it has a user",
		"dynamodb://limits?region=":                     "region is not",
		"dynamodb://limits?region=evil.example/":        "region is not",
		"dynamodb://limits?endpoint=host:8000":          "endpoint is not",
		"dynamodb://limits?endpoint=http://a:secret@b":  "endpoint is not",
		"dynamodb://limits?endpoint=ftp://host":         "endpoint is not",
		"dynamodb://limits?transactions=perhaps":        "neither true nor false",
		"dynamodb://limits?timeout=0s":                  "timeout is not",
		"dynamodb://limits?table=other":                 "unknown parameter",
		"dynamodb://limits?timeout=1s&timeout=2s":       "given twice",
		"dynamodb://limits?a=%zz":                       "name=value",
		"dynamodb://limits?region=eu-west-1;timeout=1s": "name=value",
	} {
		_, err := dynamostore.ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || stint.CodeOf(err) != stint.CodeInvalid {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for name, value := range dynamotest.Environment {
		t.Setenv(name, value)
	}
	for want, o := range map[string]dynamostore.Options{
		"Table is not":       {},
		"Prefix is longer":   {Table: "limits", Prefix: "a b"},
		"is below 0":         {Table: "limits", Timeout: -1},
		"Endpoint is not":    {Table: "limits", Endpoint: "host"},
		"no region is given": {Table: "limits"},
	} {
		if s, err := dynamostore.New(o); err == nil || !strings.Contains(err.Error(), want) || s != nil {
			t.Errorf("%v: %v, want %q", o, err, want)
		}
	}
	t.Setenv("AWS_PROFILE", "absent")
	if _, err := dynamostore.New(dynamostore.Options{Table: "limits"}); err == nil || !strings.Contains(err.Error(), "AWS_PROFILE") {
		t.Error(err)
	}
}

func TestStoreThatNewDidNotMake(t *testing.T) {
	for _, s := range []*dynamostore.Store{nil, {}} {
		if _, err := s.Take(t.Context(), stint.Claim{}); err == nil {
			t.Error("no error of Take")
		}
		if err := s.TakeGroups(t.Context(), nil, nil); err == nil {
			t.Error("no error of TakeGroups")
		}
		if s.NodeCount() != 1 || s.Metrics() != nil || s.Shards() != nil || s.Stats() != (dynamostore.Stats{}) || s.Close() != nil {
			t.Error("a store that New did not make does something")
		}
		if got := fmt.Sprintf("%v %#v", s, s); !strings.Contains(got, "dynamostore: none") {
			t.Error(got)
		}
	}
}
