package pgrules_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/pgrules"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/ruletest"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/internal/secret"
)

func open(t *testing.T, s *pgtest.Server, prefix string) *pgrules.Source {
	t.Helper()
	source, err := pgrules.New(pgrules.Options{URL: s.URL(), Password: secret.Fixed(pgtest.Password), Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	return source
}

func TestPostgres(t *testing.T) {
	s := pgtest.Start(t)
	n := 0
	ruletest.Source(t, func(t *testing.T) ruleset.Source { n++; return open(t, s, fmt.Sprint("p:", n)) })
	ruletest.Shared(t, func(t *testing.T) ruleset.Source { return open(t, s, "shared") })
	ruletest.Fleet(t, open(t, s, "fleet"))
	ruletest.Secret(t, func(t *testing.T) ruleset.Fleet { return open(t, s, "secret") })
	ruletest.Emergency(t, func(t *testing.T) emergency.Source { return open(t, s, "emergency") })
	ruletest.Canary(t, func(t *testing.T) ruletest.CanarySource { return open(t, s, "canary") })
	t.Run("repairsAWrongSecret", func(t *testing.T) { repairsSecret(t, s) })
	t.Run("repairsWithoutTheSecret", func(t *testing.T) { repairsWithoutTheSecret(t, s) })
	t.Run("makesItsTablesOnce", func(t *testing.T) { makesTablesOnce(t, s) })
	t.Run("announces", func(t *testing.T) { announces(t, s) })
	t.Run("makesTablesAgain", func(t *testing.T) { makesTablesAgain(t, s) })
	t.Run("repairs", func(t *testing.T) { repairs(t, s) })
	t.Run("rotatesItsPassword", func(t *testing.T) { passwordIsRotated(t, s) })
	t.Run("comesBackAfterARestart", func(t *testing.T) { comesBack(t, s) })
}

// Nodes that start together all create the tables.
func makesTablesOnce(t *testing.T, s *pgtest.Server) {
	var done sync.WaitGroup
	for range 8 {
		source := open(t, s, "together")
		done.Go(func() {
			if _, err := source.History(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}

// Dropped tables are created again for the next publish.
func makesTablesAgain(t *testing.T, s *pgtest.Server) {
	source := open(t, s, "dropped")
	if _, err := source.Publish(t.Context(), 0, ruletest.Rules(1, "one")); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, s).Exec(t.Context(), `DROP TABLE "dropped_rules", "dropped_rules_nodes"`); err != nil {
		t.Fatal(err)
	}
	if _, err := source.History(t.Context(), 1); err == nil {
		t.Error("the missing table is not reported")
	}
	if listed, err := source.History(t.Context(), 1); err != nil || len(listed) != 0 {
		t.Errorf("%v, %v", listed, err)
	}
	if _, err := source.Publish(t.Context(), 0, ruletest.Rules(2, "two")); err != nil {
		t.Error(err)
	}
	if _, err := source.Get(t.Context(), math.MaxUint64); !errors.Is(err, ruleset.ErrNone) {
		t.Errorf("a number that no row can have: %v", err)
	}
}

// announces waits three times, each time far less than a poll interval.
func announces(t *testing.T, s *pgtest.Server) {
	one, other := open(t, s, "heard"), open(t, s, "heard")
	changed := watch(t, other)
	<-changed
	awaitListening(t, s)
	for n := range uint64(3) {
		drain(changed)
		if _, err := one.Publish(t.Context(), n, ruletest.Rules(n+1, fmt.Sprint("r", n))); err != nil {
			t.Fatal(err)
		}
		<-changed
	}
}

// awaitListening waits until a connection listens for announcements.
func awaitListening(t *testing.T, s *pgtest.Server) {
	t.Helper()
	c := connect(t, s)
	redistest.Await(t, func() error {
		var n int
		err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("nobody listens")
		}
		return err
	})
}

// connect returns a connection of the test's own.
func connect(t *testing.T, s *pgtest.Server) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.Replace(s.URL(), "?", "?password=secret%25%3A%2F%3F%23%40pw&", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func watch(t *testing.T, s ruleset.Source) chan struct{} {
	t.Helper()
	changed, done := make(chan struct{}, 1000), make(chan struct{})
	ctx, end := context.WithCancel(t.Context())
	go func() { defer close(done); s.Watch(ctx, func() { changed <- struct{}{} }) }()
	t.Cleanup(func() { end(); <-done })
	return changed
}

func drain(c chan struct{}) {
	for len(c) > 0 {
		<-c
	}
}

func comesBack(t *testing.T, s *pgtest.Server) {
	source := open(t, s, "back")
	if _, err := source.Publish(t.Context(), 0, ruletest.Rules(1, "one")); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, err := source.History(t.Context(), 1); err == nil || strings.Contains(err.Error(), pgtest.Password) {
		t.Errorf("without its server: %v", err)
	}
	s.Restart()
	redistest.Await(t, func() error { _, err := source.Get(t.Context(), 1); return err })
}

func TestWrongOptionsAreRefusedWithoutThePassword(t *testing.T) {
	for _, o := range []pgrules.Options{
		{URL: "postgres://u:hunter2@host:port/db"},
		{URL: "postgres://u:hunter2@host/db", Prefix: `a"b`},
		{URL: "postgres://u:hunter2@host/db?sslmode=none"},
		{URL: "postgres://u:hunter2@host/db", Password: secret.Fixed("hunter2")},
	} {
		if _, err := pgrules.New(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", o.Prefix, err)
		}
	}
	s, err := pgrules.New(pgrules.Options{URL: "postgres://u:hunter2@host/db", Logger: slog.New(slog.DiscardHandler)})
	if err != nil || s.String() != "postgres://host:5432/db stint_rules" {
		t.Errorf("%v, %v", s, err)
	}
}

// passwordIsRotated checks that every new connection uses the current password,
// including the one for announcements.
func passwordIsRotated(t *testing.T, s *pgtest.Server) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	owner := connect(t, s)
	rotate := func(statement string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		const others = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotating'`
		if _, err := owner.Exec(t.Context(), others); err != nil {
			t.Fatal(err)
		}
	}
	rotate(`CREATE ROLE rotating LOGIN SUPERUSER PASSWORD 'hidden1'`)
	write("hidden1")
	password, err := secret.OpenText("rules-password-file", "password", file)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(s.URL(), "stint@", "rotating@", 1)
	source, err := pgrules.New(pgrules.Options{URL: url, Password: password, Prefix: "rotated"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	if _, err := source.Publish(t.Context(), 0, ruletest.Rules(1, "one")); err != nil {
		t.Fatal(err)
	}
	changed := watch(t, source)
	<-changed
	rotate(`ALTER ROLE rotating PASSWORD 'hidden2'`)
	redistest.Await(t, func() error {
		if _, err := source.History(t.Context(), 1); err == nil {
			return errors.New("the old password is taken")
		}
		return nil
	})
	write("hidden2")
	redistest.Await(t, func() error { _, err := source.Get(t.Context(), 1); return err })
	awaitListening(t, s)
}

// repairs also checks that rows that cannot be versions are skipped by reads
// and removed by a repair.
func repairs(t *testing.T, s *pgtest.Server) {
	n := 0
	c := connect(t, s)
	ruletest.Repair(t, math.MaxInt64, func(t *testing.T) ruleset.Source {
		n++
		return open(t, s, fmt.Sprint("repaired", n))
	}, func(t *testing.T, number, after uint64, text string) {
		if _, err := c.Exec(t.Context(), fmt.Sprintf(`INSERT INTO "repaired%d_rules" VALUES ($1, $2, 'infinity', '', '', $3, $4), (-1, $1, '-infinity', '', '', '', '')`, n),
			number, after, forgedHash(text), text); err != nil {
			t.Fatal(err)
		}
	})
}

// A text that another program has written is no secret. A repair replaces it, and a right one, too,
// because whoever wrote to the database may know that.
func repairsSecret(t *testing.T, s *pgtest.Server) {
	source := open(t, s, "wrong")
	truncate := func() {
		t.Helper()
		if err := source.Truncate(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	truncate() // the table is missing
	const right = "the secret of all nodes"
	if got, err := source.Secret(t.Context(), right); err != nil || got != right {
		t.Errorf("%q, %v", got, err)
	}
	replaced := func() {
		t.Helper()
		truncate()
		for _, proposed := range []string{right, "another secret of a node"} {
			if got, err := source.Secret(t.Context(), proposed); err != nil || got == proposed || len(got) != len(rand.Text()) {
				t.Errorf("%q, %v", got, err)
			}
		}
	}
	replaced()
	if _, err := connect(t, s).Exec(t.Context(), `UPDATE "wrong_rules_secret" SET secret = 'x'`); err != nil {
		t.Fatal(err)
	}
	if got, err := source.Secret(t.Context(), right); err == nil || got != "" || !strings.Contains(err.Error(), "stint rules repair") {
		t.Errorf("%q, %v", got, err)
	}
	replaced()
}

// A role that may not write the secret repairs the rules, and keeps a right secret. It cannot
// replace a wrong one, and says so.
func repairsWithoutTheSecret(t *testing.T, s *pgtest.Server) {
	owner := connect(t, s)
	must := func(statement string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	const right = "the secret of all nodes"
	all := open(t, s, "limited")
	if _, err := all.Publish(t.Context(), 0, ruletest.Rules(1, "one")); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Secret(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	must(`CREATE ROLE limited LOGIN PASSWORD 'hidden'`)
	must(`GRANT ALL ON "limited_rules", "limited_rules_nodes" TO limited`)
	must(`GRANT SELECT, INSERT ON "limited_rules_secret" TO limited`)
	source, err := pgrules.New(pgrules.Options{URL: strings.Replace(s.URL(), "stint@", "limited@", 1), Password: secret.Fixed("hidden"), Prefix: "limited"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	if err := source.Truncate(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if got, err := source.Secret(t.Context(), "another secret of a node"); err != nil || got != right {
		t.Errorf("%q, %v", got, err)
	}
	must(`UPDATE "limited_rules_secret" SET secret = 'x'`)
	if err := source.Truncate(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Error(err)
	}
}

func forgedHash(text string) string {
	v, err := ruleset.Decode([]byte(text))
	if err != nil {
		return ""
	}
	return v.Hash
}
