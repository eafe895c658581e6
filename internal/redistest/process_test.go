package redistest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServerAnswersAtOnce(t *testing.T) {
	begun := time.Now()
	p := Server(t)
	t.Logf("started in %v", time.Since(begun))
	if got := p.Must("PING"); got != "PONG" {
		t.Errorf("PING: %q", got)
	}
	p.Must("SET", "a", "1")
	p.Must("RPUSH", "l", "x", "y")
	for _, c := range []struct{ command, want string }{
		{"GET a", "1"}, {"GET nothing", ""}, {"INCR a", "2"}, {"LRANGE l 0 -1", "x\ny"},
	} {
		if got := p.Must(strings.Fields(c.command)...); got != c.want {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
	if _, err := p.Do("GET", "l"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("GET of a list: %v", err)
	}
}

func TestServerTakesOptions(t *testing.T) {
	p := Server(t, "--maxmemory", "12mb", "--requirepass", "secret")
	if got := p.Must("CONFIG", "GET", "maxmemory"); got != "maxmemory\n12582912" {
		t.Errorf("maxmemory: %q", got)
	}
}

func TestRestartedServerIsEmptyOnTheSamePort(t *testing.T) {
	p := Server(t)
	addr, pid := p.Addr(), p.Pid()
	p.Must("SET", "a", "1")
	p.Kill()
	if _, err := p.Do("PING"); err == nil {
		t.Error("a killed server answers")
	}
	p.Restart()
	if p.Addr() != addr || p.Pid() == pid {
		t.Errorf("addr %s, was %s; pid %d, was %d", p.Addr(), addr, p.Pid(), pid)
	}
	if got := p.Must("DBSIZE"); got != "0" {
		t.Errorf("the restarted server has %s keys", got)
	}
}

func TestFrozenServerAnswersWhenThawed(t *testing.T) {
	p := Server(t)
	p.Freeze()
	answer := make(chan error, 1)
	go func() {
		_, err := p.Do("PING")
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Errorf("a frozen server answers: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	p.Thaw()
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// The test runs itself as a child that starts a server, kills the child, and
// sees the server end.
func TestServerDiesWithTheTestBinary(t *testing.T) {
	if os.Getenv("REDISTEST_CHILD") != "" {
		p := Server(t)
		_, _ = os.Stdout.WriteString("server " + p.Addr() + "\n")
		select {} // waits until the process is killed
	}
	Binary(t)
	if diesWithParent() == nil {
		t.Skip("needs Linux")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithTheTestBinary$")
	child.Env = append(os.Environ(), "REDISTEST_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	n, _ := out.Read(line)
	addr, found := bytes.CutPrefix(bytes.TrimSpace(line[:n]), []byte("server "))
	_ = child.Process.Kill()
	_ = child.Wait()
	if !found {
		t.Fatalf("the child wrote %q", line[:n])
	}
	Await(t, func() error { return refuses(t, string(addr)) })
}

// refuses is nil when nothing listens at an address.
func refuses(t *testing.T, addr string) error {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err == nil {
		return errors.Join(errors.New("something listens at "+addr), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return nil
}
