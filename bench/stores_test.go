package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestAllStoresAreInOneTable(t *testing.T) {
	var out bytes.Buffer
	if err := overAllStores(t.Context(), options{rounds: 1, slice: 5 * time.Millisecond, keys: 1000}, &out, &bars{}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Contains(text, "skipped") {
		t.Skip(text)
	}
	for _, name := range []string{"memory", "Redis", "quorum of three", "PostgreSQL", "Memcached", "DynamoDB"} {
		if strings.Count(text, name) != 1 {
			t.Errorf("%s is not one row:\n%s", name, text)
		}
	}
}

func TestStoreInPostgreSQLIsCompared(t *testing.T) {
	var out bytes.Buffer
	o := options{rounds: 1, slice: 5 * time.Millisecond, keys: 1000, churn: 100 * time.Millisecond}
	var b bars
	if err := overPostgres(t.Context(), o, &out, &b); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "skipped") {
		t.Skip(text)
	}
	if len(b) != 5 || strings.Count(out.String(), naiveName) != 3 {
		t.Errorf("%+v\n%s", b, out.String())
	}
}

func TestStoreInMemcachedIsCompared(t *testing.T) {
	var out bytes.Buffer
	o := options{rounds: 1, slice: 5 * time.Millisecond, keys: 1000}
	var b bars
	if err := overMemcached(t.Context(), o, &out, &b); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "skipped") {
		t.Skip(text)
	}
	if len(b) != 3 || strings.Count(out.String(), bareSwapName) < 3 {
		t.Errorf("%+v\n%s", b, out.String())
	}
}

func TestStoreInQuorumIsCompared(t *testing.T) {
	var out bytes.Buffer
	var b bars
	if err := overQuorum(t.Context(), options{rounds: 1, slice: 5 * time.Millisecond, keys: 1000}, &out, &b); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "skipped") {
		t.Skip(text)
	}
	if len(b) != 3 || strings.Count(out.String(), oneServerName) != 4 {
		t.Errorf("%+v\n%s", b, out.String())
	}
}

func TestWritesInDynamoDBAreCounted(t *testing.T) {
	var out bytes.Buffer
	var b bars
	if err := overDynamo(t.Context(), options{rounds: 1, slice: 5 * time.Millisecond}, &out, &b); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "skipped") {
		t.Skip(text)
	}
	if len(b) != 2 || strings.Count(out.String(), "writes/s") != 2 {
		t.Errorf("%+v\n%s", b, out.String())
	}
}
