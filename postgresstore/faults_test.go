package postgresstore

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
)

// as returns a URL of a server with another user, whose password is the name.
func as(address, user string) string {
	return strings.Replace(address, "stint@", user+":"+user+"@", 1)
}

// wantError checks that a read and a write fail with nothing written: the kind of the error,
// and a part of its problem or mend.
func wantError(t *testing.T, b *backend, kind stint.Kind, text string) {
	t.Helper()
	_, read := b.Load(inTime(t), []cas.Load{{Key: "k"}})
	swaps := []cas.Swap{swapOf("k", 0, "v")}
	_, write := b.Swap(inTime(t), swaps)
	for what, err := range map[string]error{"read": read, "write": write} {
		e, ok := errors.AsType[*stint.Error](err)
		if !ok || e.Code != stint.CodeUnavailable || e.Kind != kind || !strings.Contains(e.Problem+"\n"+e.Mend, text) || strings.Contains(err.Error(), url.QueryEscape(pgtest.Password)) {
			t.Errorf("%s: %v\nproblem %q, mend %q, want %s and %q", what, err, e.Problem, e.Mend, kind, text)
		}
	}
	if swaps[0].Outcome != cas.Failed {
		t.Errorf("outcome %d", swaps[0].Outcome)
	}
	if err := b.Probe(inTime(t), ""); err == nil {
		t.Error("a probe succeeds")
	}
}

func TestErrorsNameTheMend(t *testing.T) {
	s := pgtest.Start(t, "max_connections=15")
	s.Must(`CREATE ROLE weak LOGIN PASSWORD 'weak'; CREATE SCHEMA closed; REVOKE ALL ON SCHEMA closed FROM PUBLIC`)
	t.Run("missing tables and rights", func(t *testing.T) {
		weak := open(t, as(s.URL(), "weak"))
		wantError(t, weak, "noperm", `run stint store migrate`)
		migrate(t, withPassword(s.URL()))
		wantError(t, weak, "noperm", `GRANT SELECT, INSERT, UPDATE, DELETE ON "stint_items", "stint_nodes" TO "weak"`)
		s.Must("GRANT SELECT, INSERT, UPDATE ON stint_items, stint_nodes TO weak")
		wantError(t, weak, "noperm", `DELETE ON "stint_items", DELETE ON "stint_nodes"`)
		s.Must("GRANT DELETE ON stint_items, stint_nodes TO weak")
		swapped(t, weak.Swap, []cas.Swap{swapOf("weak", 0, "v")}, cas.Done)
		o, err := ParseURL(as(s.URL(), "weak"))
		if err == nil {
			err = Migrate(inTime(t), o)
		}
		if err == nil || !strings.Contains(err.Error(), "belong to another user") {
			t.Error(err)
		}
		s.Must("REVOKE UPDATE ON stint_items FROM weak")
		_, err = weak.Swap(inTime(t), []cas.Swap{swapOf("weak", 1, "v")})
		if stint.CodeOf(err) != stint.CodeUnavailable {
			t.Error(err)
		}
		wantError(t, weak, "noperm", `UPDATE ON "stint_items"`)
		s.Must("GRANT UPDATE ON stint_items TO weak")
		comesBack(t, weak)
	})
	t.Run("a closed schema", func(t *testing.T) {
		wantError(t, open(t, as(s.URL(), "weak")+"&schema=closed"), "noperm", "grant USAGE")
		wantError(t, open(t, withPassword(s.URL())+"&schema=absent"), "schema", "CREATE SCHEMA")
		s.Must("ALTER ROLE weak SET search_path = closed")
		wantError(t, open(t, as(s.URL(), "weak")), "noperm", "grant USAGE on the schema")
		s.Must("ALTER ROLE weak RESET search_path")
	})
	t.Run("credentials", func(t *testing.T) {
		wantError(t, open(t, strings.Replace(s.URL(), "stint@", "stint:wrong@", 1)), "noauth", "STINT_STORE_PASSWORD_FILE")
		wantError(t, open(t, as(s.URL(), "nobody")), "noauth", "STINT_STORE_PASSWORD_FILE")
		b := open(t, as(s.URL(), "weak"))
		s.Must("ALTER ROLE weak PASSWORD 'another'")
		wantError(t, b, "noauth", "STINT_STORE_PASSWORD_FILE")
		s.Must("ALTER ROLE weak PASSWORD 'weak'")
		comesBack(t, b)
		wantError(t, open(t, strings.Replace(withPassword(s.URL()), "/postgres?", "/absent?", 1)), "database", "CREATE DATABASE")
	})
	t.Run("addresses", func(t *testing.T) {
		wantError(t, open(t, "postgres://u@127.0.0.1:1/db"), "connection", "check that it runs")
		wantError(t, open(t, strings.Replace(withPassword(s.URL()), "disable", "require", 1)), "tls", "ssl = on")
	})
	t.Run("too many connections", func(t *testing.T) {
		s.Must("ALTER ROLE weak CONNECTION LIMIT 0")
		b := open(t, as(s.URL(), "weak"))
		wantError(t, b, "connections", "max_connections")
		s.Must("ALTER ROLE weak CONNECTION LIMIT -1")
		comesBack(t, b)
	})
	t.Run("other programs have all connections", func(t *testing.T) {
		held := holdConnections(t, as(s.URL(), "weak"))
		b := open(t, as(s.URL(), "weak"))
		wantError(t, b, "connections", "max_connections")
		for _, c := range held {
			_ = c.Close(t.Context()) // an error: the server has closed it
		}
		comesBack(t, b)
	})
	t.Run("read only", func(t *testing.T) {
		b := open(t, withPassword(s.URL()))
		loaded(t, b, "k")
		s.Must("ALTER DATABASE postgres SET default_transaction_read_only = on")
		wantError(t, open(t, withPassword(s.URL())), "readonly", "standby")
		s.Must("SET TRANSACTION READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only")
	})
	t.Run("a newer layout", func(t *testing.T) {
		s.Must("COMMENT ON TABLE stint_items IS 'stint: layout 2'")
		wantError(t, open(t, withPassword(s.URL())), "schema", "newer version of Stint")
		s.Must("COMMENT ON TABLE stint_items IS 'stint: layout 1'")
	})
	t.Run("the disk is full", func(t *testing.T) { // the trigger raises what the server does then
		b := open(t, withPassword(s.URL()))
		loaded(t, b, "k")
		s.Must(`CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$;
			CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON stint_items FOR EACH ROW EXECUTE FUNCTION fill()`)
		swaps := []cas.Swap{swapOf("full", 0, "v")}
		_, err := b.Swap(inTime(t), swaps)
		e, ok := errors.AsType[*stint.Error](err)
		if !ok || e.Code != stint.CodeUnavailable || e.Kind != "full" || !strings.Contains(e.Error(), "free space on the disk") {
			t.Error(err)
		}
		s.Must("DROP TRIGGER fill ON stint_items")
		swapped(t, b.Swap, []cas.Swap{swapOf("full", 0, "v")}, cas.Done)
	})
	pooler := s.PgBouncer("max_client_conn = 1") // skips the rest where it is not installed
	t.Run("PgBouncer is full", func(t *testing.T) {
		comesBack(t, open(t, withPassword(pooler.URL()))) // once PgBouncer has forgotten the connection that found it ready
		wantError(t, open(t, withPassword(pooler.URL())), "connections", "max_client_conn")
	})
}

// holdConnections makes connections until the server refuses one.
func holdConnections(t *testing.T, address string) (held []*pgx.Conn) {
	t.Helper()
	for range 100 {
		c, err := pgx.Connect(inTime(t), address)
		if err != nil {
			return held
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		held = append(held, c)
	}
	t.Fatal("the server refuses no connection")
	return nil
}

func TestOldServersAreRefused(t *testing.T) {
	d := description{version: 12_00_17}
	if err := d.usable("h"); err == nil || !strings.Contains(err.Error(), "PostgreSQL 12.17") || !strings.Contains(err.Error(), "13 or newer") {
		t.Error(err)
	}
}

func migrate(t *testing.T, address string) {
	t.Helper()
	o, err := ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := Migrate(inTime(t), o); err != nil {
		t.Fatal(err)
	}
}

func TestTablesAreMadeOnce(t *testing.T) {
	s := pgtest.Start(t)
	errs := make(chan error)
	for range 8 {
		b := open(t, withPassword(s.URL()))
		go func() {
			_, err := b.Load(context.Background(), []cas.Load{{Key: "k"}})
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := s.Must(`SELECT relname, relpersistence FROM pg_class WHERE relname ~ '^stint_.*s$' ORDER BY 1`); got != "stint_items|u\nstint_nodes|u" {
		t.Error(got)
	}
	b := open(t, withPassword(s.URL()))
	swapped(t, b.Swap, []cas.Swap{swapOf("k", 0, "v")}, cas.Done)
	s.Must("DROP TABLE stint_items")
	if _, err := b.Load(inTime(t), []cas.Load{{Key: "k"}}); err == nil || !strings.Contains(err.Error(), "lost the tables") {
		t.Error(err)
	}
	if got := loaded(t, b, "k"); got[0].Version != 0 {
		t.Error(got)
	}
	s.Must("DROP FUNCTION stint_load_1")
	if _, err := b.Load(inTime(t), []cas.Load{{Key: "k"}}); err == nil || !strings.Contains(err.Error(), "lost the functions") {
		t.Error(err)
	}
	loaded(t, b, "k")
	s.Must("DROP TABLE stint_nodes")
	if _, err := b.Announce(inTime(t), "n", time.Minute); err == nil || !strings.Contains(err.Error(), "lost the tables") {
		t.Error(err)
	}
	if a, err := b.Announce(inTime(t), "n", time.Minute); err != nil || a.Nodes != 1 {
		t.Error(a, err)
	}
}

func TestDurability(t *testing.T) {
	s := pgtest.Start(t)
	migrate(t, withPassword(s.URL())+"&durable=true")
	kind := `SELECT relpersistence FROM pg_class WHERE relname = 'stint_items'`
	if got := s.Must(kind); got != "p" {
		t.Error(got)
	}
	var log strings.Builder
	o, err := ParseURL(withPassword(s.URL()))
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	b, err := newBackend(&o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	durable, lost := swapOf("k", 0, "v"), swapOf("k", 0, "v")
	swapped(t, b.Swap, []cas.Swap{durable}, cas.Done)
	if !strings.Contains(log.String(), "not as durable") || !strings.Contains(log.String(), "wanted=unlogged") {
		t.Error(log.String())
	}
	s.Restart()
	if got := comesBack(t, b); got.Version != durable.Version {
		t.Error("a durable table lost a row:", got)
	}
	migrate(t, withPassword(s.URL()))
	if got := s.Must(kind); got != "u" {
		t.Error(got)
	}
	swapped(t, b.Swap, []cas.Swap{swapOf("k", durable.Version, "v")}, cas.Done)
	s.Restart()
	if got := comesBack(t, b); got.Version != 0 {
		t.Error("an unlogged table survives a crash:", got)
	}
	swapped(t, b.Swap, []cas.Swap{lost}, cas.Done)
}

// comesBack waits until the backend reads again, and returns the item of the key k.
func comesBack(t *testing.T, b *backend) cas.Item {
	t.Helper()
	loads := []cas.Load{{Key: "k"}}
	redistest.Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Load(ctx, loads)
		return err
	})
	return loads[0].Item
}

func TestFrozenServer(t *testing.T) {
	s := pgtest.Start(t)
	b := open(t, withPassword(s.URL()))
	k := swapOf("k", 0, "1")
	swapped(t, b.Swap, []cas.Swap{k}, cas.Done)
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun, swaps := time.Now(), []cas.Swap{swapOf("k", k.Version, "2")}
	_, err := b.Swap(ctx, swaps)
	if took := time.Since(begun); stint.CodeOf(err) != stint.CodeTimeout || swaps[0].Outcome != cas.Unknown || took > 5*time.Second {
		t.Error(took, swaps[0].Outcome, err)
	}
	s.Thaw() // the server then handles what was sent
	if got := comesBack(t, b); got.Version != k.Version && got.Version != swaps[0].Version {
		t.Error(got)
	}
}

// A slow server is waited for until the deadline of a call. A call beyond it fails, and is
// charged once at most although its write arrives later.
func TestSlowServer(t *testing.T) {
	server := pgtest.Start(t)
	proxy := redistest.Proxy(t, server.Addr())
	s := openStore(t, strings.Replace(withPassword(server.URL()), server.Addr(), proxy.Addr(), 1)+"&timeout=10s")
	comesBack(t, s.backend)
	claim := stint.Claim{Key: "k", Limit: stint.MustParseLimit("20/d"), Cost: 1}
	const delay = 200 * time.Millisecond // in each direction
	proxy.Delay(delay)
	begun := time.Now()
	if d, err := s.Take(inTime(t), claim); err != nil || !d.Allowed || time.Since(begun) < 2*delay {
		t.Error(time.Since(begun), d, err)
	}
	admitted, failed := int64(1), int64(0)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), delay/2)
		_, err := s.Take(ctx, claim)
		cancel()
		if code := stint.CodeOf(err); code != stint.CodeTimeout && code != stint.CodeUnavailable {
			t.Error(err)
		}
		failed++
	}
	proxy.Delay(0)
	redistest.Await(t, func() error {
		_, err := s.Take(inTime(t), claim)
		return err
	})
	admitted++
	claim.Cost = 0
	d, err := s.Take(inTime(t), claim)
	if charged := 20 - d.Remaining; err != nil || charged < admitted || charged > admitted+failed {
		t.Error("charged", charged, "admitted", admitted, "failed", failed, err)
	}
}

func TestBrokenConnections(t *testing.T) {
	s := pgtest.Start(t)
	proxy := redistest.Proxy(t, s.Addr())
	b := open(t, strings.Replace(withPassword(s.URL()), s.Addr(), proxy.Addr(), 1))
	k := swapOf("k", 0, "1")
	swapped(t, b.Swap, []cas.Swap{k}, cas.Done)
	proxy.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	swaps := []cas.Swap{swapOf("k", k.Version, "2")}
	if _, err := b.Swap(ctx, swaps); stint.CodeOf(err) != stint.CodeTimeout || swaps[0].Outcome != cas.Unknown {
		t.Error(swaps[0].Outcome, err)
	}
	proxy.Heal()
	if got := comesBack(t, b); got.Version != swaps[0].Version {
		t.Error("the write is lost:", got)
	}
	proxy.Reset()
	_, err := b.Load(inTime(t), []cas.Load{{Key: "k"}})
	if code := stint.CodeOf(err); code != stint.CodeTimeout && code != stint.CodeUnavailable {
		t.Error(err)
	}
	proxy.Heal()
	comesBack(t, b)
}

func TestStopClosesTheConnections(t *testing.T) {
	s := pgtest.Start(t)
	b := open(t, withPassword(s.URL()))
	loaded(t, b, "k")
	sessions := `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stint'`
	if s.Must(sessions) == "0" {
		t.Error("no connections")
	}
	b.Stop("")
	redistest.Await(t, func() error {
		if n := s.Must(sessions); n != "0" {
			return errors.New(n + " connections are left")
		}
		return nil
	})
	if _, err := b.Load(inTime(t), []cas.Load{{Key: "k"}}); stint.CodeOf(err) != stint.CodeUnavailable {
		t.Error(err)
	}
	if err := b.Probe(inTime(t), ""); err != nil {
		t.Error(err)
	}
	b.Start("")
	loaded(t, b, "k")
	held := make(chan struct{})
	answer := make(chan error)
	go func() {
		_, err := b.Locked(context.Background(), []string{"k"}, func([]cas.Item, time.Time) []cas.Swap {
			close(held)
			b.Stop("")
			return []cas.Swap{swapOf("k", 0, "v")}
		})
		answer <- err
	}()
	<-held
	if err := <-answer; err != nil {
		t.Error(err) // the swaps have it
	}
	b.Start("")
	loaded(t, b, "k")
}

func TestFailoverToAStandby(t *testing.T) {
	s := pgtest.Start(t)
	standby := s.Standby()
	both := strings.Replace(withPassword(s.URL()), s.Addr(), standby.Addr()+","+s.Addr(), 1)
	b := open(t, both+"&durable=true")
	k := swapOf("k", 0, "1")
	swapped(t, b.Swap, []cas.Swap{k}, cas.Done)
	alone := open(t, strings.Replace(withPassword(s.URL()), s.Addr(), standby.Addr(), 1))
	wantError(t, alone, "readonly", "name the primary")
	wantError(t, open(t, strings.Replace(strings.Replace(withPassword(s.URL()), s.Addr(), standby.Addr(), 1), "disable", "prefer", 1)), "readonly", "name the primary")
	written := s.Must("SELECT pg_current_wal_lsn()")
	redistest.Await(t, func() error {
		if standby.Must("SELECT pg_last_wal_replay_lsn() >= '"+written+"'") != "t" {
			return errors.New("the standby has not replayed the row yet")
		}
		return nil
	})
	s.Kill()
	standby.Promote()
	if got := comesBack(t, b); got.Version != k.Version {
		t.Error(got)
	}
	swapped(t, b.Swap, []cas.Swap{swapOf("k", k.Version, "2")}, cas.Done)
	comesBack(t, alone)
}
