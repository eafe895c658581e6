package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// PgBouncer is a connection pooler in front of a server.
type PgBouncer struct{ process }

// PgBouncer starts PgBouncer in front of the server. It pools transactions: each
// transaction of a client may run on another connection to the server. The settings are
// those of its configuration file, such as "max_client_conn = 2". The test is skipped if
// PgBouncer is not installed.
func (s *Server) PgBouncer(settings ...string) *PgBouncer {
	s.t.Helper()
	program := ""
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} { // PATH may lack sbin
		if path, err := exec.LookPath(name); err == nil {
			program = path
		}
	}
	if program == "" {
		s.t.Skip("needs PgBouncer, which is not installed (run scripts/install-test-servers)")
	}
	b := &PgBouncer{newProcess(s.t)}
	users := filepath.Join(b.dir, "users")
	b.must(os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", "stint", Password), 0o644)) //nolint:gosec // of a server of this test alone
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
		"auth_type = scram-sha-256\nauth_file = %s\npool_mode = transaction\n%s\n", s.port, b.port, users, strings.Join(settings, "\n"))
	config := filepath.Join(b.dir, "pgbouncer.ini")
	b.must(os.WriteFile(config, []byte(text), 0o644)) //nolint:gosec // of a server of this test alone
	b.start(b.command(program, config), func() bool {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", b.Addr())
		return err == nil && c.Close() == nil
	})
	return b
}

// URL returns the URL of the server by way of PgBouncer for the user stint, without the
// password.
func (b *PgBouncer) URL() string { return urlOf(b.port) }

func urlOf(port int) string {
	return "postgres://stint@127.0.0.1:" + strconv.Itoa(port) + "/postgres?sslmode=disable"
}
