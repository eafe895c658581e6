package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/pgtest"
)

// withPasswordFile returns arguments for a store in a server of PostgreSQL.
func withPasswordFile(t *testing.T) (args []string) {
	t.Helper()
	return []string{"--store-password-file", writeFile(t, filepath.Join(t.TempDir(), "password"), pgtest.Password+"\n")}
}

func TestServersShareALimitInPostgreSQL(t *testing.T) {
	db := pgtest.Start(t)
	pooler := db.PgBouncer("server_login_retry = 1")
	fronts := []*process{startShared(t, db.URL(), withPasswordFile(t)...), startShared(t, pooler.URL(), withPasswordFile(t)...)}
	inTime(t, func(key string) (wrong string, degraded bool) {
		for i := range 5 {
			_, answer := check(t, fronts[i%2], "/closed", key)
			if isAllowed(answer) != (i < 3) {
				wrong = fmt.Sprintf("check %d of a limit of 3: %s", i, answer)
			}
			degraded = degraded || isDegraded(answer)
		}
		return wrong, degraded
	})
	for _, line := range []string{"stint_store_up 1\n", "stint_store_nodes 2\n", `stint_clock_skew_seconds{shard=""}`} {
		fronts[0].awaitMetric(line)
	}
	if log := strings.Join(fronts[0].logged(), "\n"); strings.Contains(log, pgtest.Password) || !strings.Contains(log, "postgres://stint:***@") {
		t.Error(log)
	}
	db.Kill()
	if status, answer := check(t, fronts[0], "/open", "k"); status != http.StatusOK || !isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("open: %d %s", status, answer)
	}
	if status, answer := check(t, fronts[0], "/closed", "k"); status != http.StatusServiceUnavailable || isAllowed(answer) || !isDegraded(answer) {
		t.Errorf("closed: %d %s", status, answer)
	}
	fronts[0].awaitMetric("stint_store_up 0\n")
	db.Restart()
	for _, front := range fronts {
		await(t, "the database is back", func() (bool, string) { _, a := check(t, front, "/open", "k"); return !isDegraded(a), a })
	}
}

func TestStartLogsWhyPostgreSQLIsNotReady(t *testing.T) {
	db := pgtest.Start(t)
	db.Must("CREATE ROLE weak LOGIN PASSWORD 'weak'")
	for user, why := range map[string]string{"weak": "run stint store migrate", "wrong": "STINT_STORE_PASSWORD_FILE"} {
		p := startShared(t, strings.Replace(db.URL(), "stint@", user+":"+user+"@", 1))
		p.wait("msg=ready")
		if log := strings.Join(p.logged(), "\n"); !strings.Contains(log, why) {
			t.Errorf("%q is not in the log:\n%s", why, log)
		}
	}
}

func TestStoreMigrate(t *testing.T) {
	db := pgtest.Start(t)
	db.Must("CREATE ROLE app LOGIN PASSWORD 'app'")
	got := command(t, nil, append([]string{"store", "migrate", db.URL() + "&durable=true"}, withPasswordFile(t)...)...)
	if got.status != exitDone || !strings.Contains(got.out, "up to date (logged") || strings.Contains(got.out, pgtest.Password) {
		t.Fatal(got)
	}
	if kind := db.Must("SELECT relpersistence FROM pg_class WHERE relname = 'stint_items'"); kind != "p" {
		t.Error(kind)
	}
	db.Must("GRANT SELECT, INSERT, UPDATE, DELETE ON stint_items, stint_nodes TO app")
	p := startShared(t, strings.Replace(db.URL(), "stint@", "app:app@", 1)+"&durable=true")
	if _, answer := check(t, p, "/open", "k"); isDegraded(answer) {
		t.Error(answer)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"store", "migrate", "redis://h"}, exitUsage, "give postgres://"},
		{[]string{"store", "migrate"}, exitUsage, "the URL of one store"},
		{[]string{"store", "migrate", "postgres://h/db?durable=maybe"}, exitUsage, "neither true nor false"},
		{[]string{"store", "migrate", "postgres://u@127.0.0.1:1/db"}, exitFailed, "check that it runs"},
		{[]string{"serve", "--store", "postgres://u@h/db?wait=1"}, exitUsage, "unknown parameter"},
		{append([]string{"serve", "--store", "postgres://u:secret@h/db"}, withPasswordFile(t)...), exitUsage, "remove it from the URL"},
		{[]string{"replay", "--store", "postgres://u@h/db?wait=1", "--limit", "1/s", "--by", "key", "-"}, exitUsage, "unknown parameter"},
	} {
		got := command(t, nil, c.args...)
		if got.status != c.status || !strings.Contains(got.errors, c.want) || strings.Contains(got.errors, "secret@") {
			t.Errorf("%v: status %d, %q, want %q", c.args, got.status, got.errors, c.want)
		}
	}
}

func TestReplayInPostgreSQLDecidesAsInMemory(t *testing.T) {
	db := pgtest.Start(t)
	args := append([]string{"--store", db.URL()}, withPasswordFile(t)...)
	for i, limit := range replayLimits {
		stdin := traffic(uint64(i), 150)
		want, wantSummary := replayed(t, stdin, "--limit", limit, "--by", "key")
		got, gotSummary := replayed(t, stdin, append([]string{"--limit", limit, "--by", "key"}, args...)...)
		if got != want || gotSummary != wantSummary {
			t.Errorf("%s: PostgreSQL\n%s\nmemory\n%s", limit, gotSummary, wantSummary)
		}
	}
	if rows := db.Must("SELECT count(*) FROM stint_items"); rows != "0" {
		t.Errorf("%s rows are left", rows)
	}
}
