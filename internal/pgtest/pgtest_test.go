package pgtest

import "testing"

func TestServerWithAStandbyAndAPooler(t *testing.T) {
	s := Start(t, "max_connections=20")
	if got := s.Must("SHOW max_connections"); got != "20" {
		t.Error(got)
	}
	s.Must("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
	standby := s.Standby()
	if got := standby.Must("SELECT n, pg_is_in_recovery() FROM t"); got != "1|t" {
		t.Error(got)
	}
	standby.Promote()
	standby.Must("INSERT INTO t VALUES (2)")
	pooler := s.PgBouncer()
	if got := s.run("psql", "-d", pooler.URL(), "-X", "-A", "-t", "-c", "SELECT n FROM t"); got != "1\n" {
		t.Errorf("%q", got)
	}
}

func TestFrozenServerAnswersOnceItIsThawed(t *testing.T) {
	s := Start(t)
	s.Freeze()
	if s.ready("1") {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	if got := s.Must("SELECT 1"); got != "1" {
		t.Error(got)
	}
}
