package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// SentinelServers is a master with two replicas, under three Sentinels of
// which two must agree.
type SentinelServers struct {
	Name     string     // the name of the master at the Sentinels
	Servers  []*Process // the first is the master at first
	Watchers []*Process // the Sentinels
	t        testing.TB
}

// Sentinel starts a master, two replicas in step with it and three Sentinels
// that know each other and the replicas. They replace a master after half a
// second of silence. The options are those of each server, not of the
// Sentinels.
func Sentinel(t testing.TB, options ...string) *SentinelServers {
	t.Helper()
	s := &SentinelServers{Name: "stint", t: t}
	master := Server(t, append(slices.Clone(options), "--repl-diskless-sync", "no")...)
	s.Servers = append(s.Servers, master)
	for range 2 {
		s.Servers = append(s.Servers, Server(t, append(slices.Clone(options),
			"--repl-diskless-sync", "no", "--replicaof", "127.0.0.1", strconv.Itoa(master.port))...))
	}
	master.AwaitReplicas(2)
	for range 3 {
		s.Watchers = append(s.Watchers, s.watcher(master))
	}
	s.AwaitReady()
	s.slowDown()
	return s
}

// slowDown lengthens the publish period of the Sentinels once they know each other. A Sentinel
// that sees a promoted replica reverts the promotion if the other Sentinels do not announce it
// for four periods. The promoting Sentinel needs a second to see its success, because servers
// drop their connections at a promotion.
func (s *SentinelServers) slowDown() {
	for _, p := range s.Watchers {
		_, _ = p.Do("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "500")
	}
}

// watcher starts one Sentinel. It keeps what it learns in its configuration
// file.
func (s *SentinelServers) watcher(master *Process) *Process {
	s.t.Helper()
	p := newProcess(s.t, Binary(s.t))
	file := filepath.Join(p.dir, "sentinel.conf")
	config := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 500\n"+
		"sentinel failover-timeout %[1]s 3000\n", s.Name, master.port)
	if password := master.password(); password != "" {
		config += fmt.Sprintf("sentinel auth-pass %s %s\n", s.Name, password)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	p.options = []string{file, "--sentinel"}
	p.launch()
	// Sentinels publish themselves every two seconds by default. Versions without
	// this command keep that period.
	_, _ = p.Do("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "200")
	return p
}

// AwaitReady waits until the Sentinels that answer know all the others and two
// replicas, and agree on a master that is one.
func (s *SentinelServers) AwaitReady() {
	s.t.Helper()
	Await(s.t, func() error {
		for _, p := range s.Watchers {
			if !p.answers() {
				continue
			}
			state, err := p.Do("SENTINEL", "MASTER", s.Name)
			if err != nil {
				return err
			}
			others, replicas := pair(state, "num-other-sentinels"), pair(state, "num-slaves")
			if others != strconv.Itoa(len(s.Watchers)-1) || replicas != strconv.Itoa(len(s.Servers)-1) {
				return fmt.Errorf("sentinel %s knows %s others and %s replicas", p.Addr(), others, replicas)
			}
		}
		_, err := s.master()
		return err
	})
}

// pair returns the value that follows a name in a flat list of pairs.
func pair(reply, name string) string {
	lines := strings.Split(reply, "\n")
	if i := slices.Index(lines, name); i >= 0 && i+1 < len(lines) {
		return lines[i+1]
	}
	return ""
}

// Addrs returns the addresses of the Sentinels.
func (s *SentinelServers) Addrs() []string {
	addrs := make([]string, len(s.Watchers))
	for i, p := range s.Watchers {
		addrs[i] = p.Addr()
	}
	return addrs
}

// Master returns the server that all Sentinels call master and that says so
// itself.
func (s *SentinelServers) Master() *Process {
	s.t.Helper()
	var master *Process
	Await(s.t, func() (err error) {
		master, err = s.master()
		return err
	})
	return master
}

// AwaitPromotion waits until another server than this one is master.
func (s *SentinelServers) AwaitPromotion(from *Process) *Process {
	s.t.Helper()
	var master *Process
	Await(s.t, func() (err error) {
		if master, err = s.master(); err == nil && master == from {
			return errors.New("the master is still " + from.Addr())
		}
		return err
	})
	return master
}

// CutOff separates the master from its replicas and the Sentinels permanently. Only
// users other than the default one still reach the master, as in a network partition
// with some clients on the master's side. The servers need a password for the default
// user. The Sentinels replace the master after their usual time of silence.
func (s *SentinelServers) CutOff(master *Process) {
	s.t.Helper()
	if _, err := master.converse(
		[]string{"ACL", "SETUSER", "default", "resetpass", ">cut off"},
		[]string{"CLIENT", "KILL", "USER", "default"},
	); err != nil {
		s.t.Fatal(err)
	}
}

// Failover makes the Sentinels replace the working master, and returns the new one.
func (s *SentinelServers) Failover() *Process {
	s.t.Helper()
	from := s.Master()
	s.AskFailover(from)
	return s.AwaitPromotion(from)
}

// AskFailover asks the Sentinels to replace this master until the first of them
// names another. A Sentinel gives up when it has not heard of the replicas for
// less than a second.
func (s *SentinelServers) AskFailover(from *Process) {
	s.t.Helper()
	Await(s.t, func() error {
		named, err := s.Watchers[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)
		if err != nil || strings.Replace(named, "\n", ":", 1) != from.Addr() {
			return err
		}
		_, err = s.Watchers[0].Do("SENTINEL", "FAILOVER", s.Name)
		return errors.Join(errors.New("the sentinel still names "+from.Addr()), err)
	})
}

func (s *SentinelServers) master() (*Process, error) {
	var named string
	for _, p := range s.Watchers {
		if !p.answers() {
			continue
		}
		addr, err := p.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)
		if err != nil {
			return nil, err
		}
		if named != "" && addr != named {
			return nil, fmt.Errorf("the sentinels name %q and %q", named, addr)
		}
		named = addr
	}
	return s.named(strings.Replace(named, "\n", ":", 1))
}

func (s *SentinelServers) named(addr string) (*Process, error) {
	for _, p := range s.Servers {
		if p.Addr() != addr {
			continue
		}
		role, err := p.Info("role")
		if err == nil && role != "master" {
			return nil, fmt.Errorf("the sentinels name %s, which is %s", addr, role)
		}
		return p, err
	}
	return nil, fmt.Errorf("the sentinels name %q", addr)
}
