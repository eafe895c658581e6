package redisrules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/redisrules"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/cmd/stint/internal/ruletest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/rule"
)

func open(t *testing.T, o redisstore.Options) *redisrules.Source {
	t.Helper()
	s, err := redisrules.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func single(addr, prefix string) redisstore.Options {
	return redisstore.Options{Addrs: []string{addr}, Prefix: prefix}
}

func suite(t *testing.T, o redisstore.Options) {
	n := 0
	with := func(prefix string) redisstore.Options { p := o; p.Prefix = prefix; return p }
	ruletest.Source(t, func(t *testing.T) ruleset.Source { n++; return open(t, with(fmt.Sprint("p", n))) })
	ruletest.Shared(t, func(t *testing.T) ruleset.Source { return open(t, with("shared")) })
	ruletest.Fleet(t, open(t, with("fleet")))
	ruletest.Secret(t, func(t *testing.T) ruleset.Fleet { return open(t, with("secret")) })
	ruletest.Emergency(t, func(t *testing.T) emergency.Source { return open(t, with("emergency")) })
	ruletest.Canary(t, func(t *testing.T) ruletest.CanarySource { return open(t, with("canary")) })
}

func TestSingle(t *testing.T) {
	p := redistest.Server(t)
	suite(t, single(p.Addr(), ""))
}

func TestUnixSocket(t *testing.T) {
	path := redistest.SocketPath(t)
	redistest.Server(t, "--unixsocket", path)
	ruletest.Shared(t, func(t *testing.T) ruleset.Source { return open(t, single(path, "")) })
}

func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	suite(t, redisstore.Options{Topology: redisstore.Cluster, Addrs: redistest.Cluster(t, 3, 0).Addrs()})
}

func TestSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := redistest.Sentinel(t)
	suite(t, redisstore.Options{Topology: redisstore.Sentinel, Addrs: s.Addrs(), Master: s.Name})
}

func TestOldVersionsLoseTheirFiles(t *testing.T) {
	p := redistest.Server(t)
	s := open(t, single(p.Addr(), ""))
	for n := range uint64(103) {
		if _, err := s.Publish(t.Context(), n, ruletest.Rules(n+1, fmt.Sprint("r", n))); err != nil {
			t.Fatal(err)
		}
	}
	for number, kept := range map[uint64]bool{3: false, 4: true, 103: true} {
		if _, err := s.Get(t.Context(), number); (err == nil) != kept || err != nil && !errors.Is(err, ruleset.ErrNone) {
			t.Errorf("version %d: %v", number, err)
		}
	}
	if all, err := s.History(t.Context(), 1000); err != nil || len(all) != 103 {
		t.Errorf("%d versions, %v", len(all), err)
	}
	for n := range uint64(1000) {
		if _, err := s.Publish(t.Context(), 103+n, ruletest.Rules(104+n, "many")); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.History(t.Context(), 2000); err != nil || len(all) != 1000 || all[0].Number != 1103 {
		t.Errorf("%d versions are listed after 1103, %v", len(all), err)
	}
}

func watch(t *testing.T, s ruleset.Source) chan struct{} {
	t.Helper()
	changed, done := make(chan struct{}, 1000), make(chan struct{})
	ctx, end := context.WithCancel(t.Context())
	go func() { defer close(done); s.Watch(ctx, func() { changed <- struct{}{} }) }()
	t.Cleanup(func() { end(); <-done })
	return changed
}

// A published version is announced. A user that may not announce can still
// publish.
func TestAnnouncements(t *testing.T) {
	p := redistest.Server(t)
	s := open(t, single(p.Addr(), ""))
	changed := watch(t, open(t, single(p.Addr(), "")))
	redistest.Await(t, func() error {
		if n := p.Must("PUBLISH", "stint:rules", "0"); n != "1" {
			return fmt.Errorf("%s hear", n)
		}
		return nil
	})
	for n := range uint64(3) {
		for len(changed) > 0 {
			<-changed
		}
		if _, err := s.Publish(t.Context(), n, ruletest.Rules(n+1, "r")); err != nil {
			t.Fatal(err)
		}
		<-changed
	}
	p.Must("ACL", "SETUSER", "default", "resetchannels")
	if _, err := s.Publish(t.Context(), 3, ruletest.Rules(4, "r")); err != nil {
		t.Errorf("without the right to announce: %v", err)
	}
}

// The rights are those in docs/rules-live.md.
func TestTheRightsOfTheDocumentsAreEnough(t *testing.T) {
	p := redistest.Server(t)
	document, err := os.ReadFile("../../../../docs/rules-live.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(document), "```\n+@read")
	rights, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("the document names no rights")
	}
	p.Must(append([]string{"ACL", "SETUSER", "ann", "on", ">pw", "+@read"}, strings.Fields(rights)...)...)
	o := single(p.Addr(), "")
	o.Username, o.Password = "ann", "pw"
	s := open(t, o)
	changed := watch(t, s)
	redistest.Await(t, func() error {
		if n := p.Must("PUBLISH", "stint:rules", "0"); n != "1" {
			return fmt.Errorf("%s hear", n)
		}
		return nil
	})
	<-changed
	ruletest.Fleet(t, s)
	if _, err := s.Publish(t.Context(), 0, ruletest.Rules(1, "r")); err != nil {
		t.Error(err)
	}
	if v, err := s.Get(t.Context(), 1); err != nil || v.Number != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// An entry that somebody has added by hand does not block the next version.
func TestAnEntryThatIsNoVersion(t *testing.T) {
	p := redistest.Server(t)
	s := open(t, single(p.Addr(), ""))
	sets := make(chan ruleset.Version, 10)
	k := ruleset.NewManager(ruleset.Options{Source: s, OnSet: func(_ *rule.Set, v ruleset.Version) { sets <- v }})
	publish := func(after, want uint64) {
		t.Helper()
		v, err := k.Publish(t.Context(), ruleset.Change{Files: ruletest.Rules(1, fmt.Sprint("r", after)).Files, After: after})
		if err != nil || v.Number != want || (<-sets).Number != want {
			t.Errorf("%+v, %v; want version %d", v, err, want)
		}
	}
	publish(0, 1)
	p.Must("XADD", "stint:rules:{rules}:versions", "7-0", "junk", "x")
	if all, err := s.History(t.Context(), 2); err != nil || len(all) != 2 || all[0].Number != 7 || all[0].Hash != "" || all[1].Number != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	base, newest, err := k.Base(t.Context())
	if err != nil || base.Number != 1 || newest.Number != 7 {
		t.Errorf("%+v, %+v, %v", base, newest, err)
	}
	publish(7, 8)
}

// A number is given out once, even if its version was deleted.
func TestADeletedVersionIsNoReasonToRefuseTheNext(t *testing.T) {
	p := redistest.Server(t)
	s := open(t, single(p.Addr(), ""))
	for after, number := uint64(0), uint64(9); number <= 10; after, number = number, number+1 {
		if _, err := s.Publish(t.Context(), after, ruletest.Rules(number, "r")); err != nil {
			t.Fatal(err)
		}
	}
	p.Must("XDEL", "stint:rules:{rules}:versions", "10-0")
	if v, err := s.Publish(t.Context(), 9, ruletest.Rules(10, "next")); err != nil || v.Number != 11 {
		t.Errorf("%+v, %v", v, err)
	}
	p.Must("XDEL", "stint:rules:{rules}:versions", "11-0", "9-0") // no version is left
	v, err := s.Publish(t.Context(), 0, ruletest.Rules(1, "first"))
	if err != nil || v.Number != 12 {
		t.Errorf("%+v, %v", v, err)
	}
	if whole, err := s.Get(t.Context(), 12); err != nil || whole.Number != 12 {
		t.Errorf("%+v, %v", whole, err)
	}
}

// A server that starts later is found when it is up, and no error contains the
// password.
func TestAServerThatIsAway(t *testing.T) {
	p := redistest.Server(t, "--requirepass", "hunter2")
	o := single(p.Addr(), "")
	o.Password = "hunter2"
	p.Kill()
	s := open(t, o)
	changed := watch(t, s)
	<-changed
	if _, err := s.History(t.Context(), 1); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("without its server: %v", err)
	}
	p.Restart()
	redistest.Await(t, func() error { _, err := s.History(t.Context(), 1); return err })
	<-changed // a change from the subscription or a poll
	p.Kill()
	if _, err := s.History(t.Context(), 1); err == nil { // and not when the caller's patience is over: there is no bound to that here
		t.Error("a server that is gone answers")
	}
}

func TestWrongPrefixesAreRefused(t *testing.T) {
	for _, prefix := range []string{"a{b}", "a b", strings.Repeat("x", 65)} {
		if _, err := redisrules.New(single("127.0.0.1:1", prefix)); err == nil {
			t.Errorf("%q is taken", prefix)
		}
	}
}

// rotate uses a user whose password is changed and whose connections are
// closed. The source learns the new password a while later.
func rotate(t *testing.T, o redisstore.Options, servers []*redistest.Process) {
	t.Helper()
	set := func(password string) {
		for _, p := range servers {
			p.Must("ACL", "SETUSER", "app", "on", "resetpass", ">"+password, "+@all", "~*", "&*")
			p.Must("CLIENT", "KILL", "USER", "app")
		}
	}
	set("hidden1")
	var password atomic.Value
	password.Store("hidden1")
	o.Prefix = "rotated"
	o.Credentials = func(context.Context) (string, string, error) {
		text, _ := password.Load().(string)
		return "app", text, nil
	}
	s := open(t, o)
	changed := watch(t, s)
	<-changed
	if _, err := s.Publish(t.Context(), 0, ruletest.Rules(1, "one")); err != nil {
		t.Fatal(err)
	}
	set("hidden2")
	redistest.Await(t, func() error {
		if _, err := s.History(t.Context(), 1); err == nil {
			return errors.New("the old password is taken")
		} else if strings.Contains(err.Error(), "hidden") {
			t.Error(err)
		}
		return nil
	})
	password.Store("hidden2")
	redistest.Await(t, func() error { _, err := s.Get(t.Context(), 1); return err })
	redistest.Await(t, func() error {
		for _, p := range servers {
			if said, err := p.Do("PUBSUB", "NUMSUB", "rotated:rules"); err == nil && strings.Contains(said, "1") {
				return nil
			}
		}
		return errors.New("announcements are not heard")
	})
}

func TestPasswordsAreRotated(t *testing.T) {
	p := redistest.Server(t)
	rotate(t, single(p.Addr(), ""), []*redistest.Process{p})
	if testing.Short() {
		return // the rest takes seconds
	}
	c := redistest.Cluster(t, 3, 0)
	rotate(t, redisstore.Options{Topology: redisstore.Cluster, Addrs: c.Addrs()}, c.Nodes)
	sentinels := redistest.Sentinel(t)
	rotate(t, redisstore.Options{Topology: redisstore.Sentinel, Addrs: sentinels.Addrs(), Master: sentinels.Name}, sentinels.Servers)
}

func TestRepair(t *testing.T) {
	p := redistest.Server(t)
	n := 0
	ruletest.Repair(t, math.MaxUint64, func(t *testing.T) ruleset.Source {
		n++
		return open(t, single(p.Addr(), fmt.Sprint("r", n)))
	}, func(_ *testing.T, number, _ uint64, text string) {
		key := fmt.Sprintf("r%d:rules:{rules}:", n)
		id := strconv.FormatUint(number, 10)
		p.Must("XADD", key+"versions", id+"-18446744073709551615", "version", text)
		p.Must("HSET", key+"files", id, text)
	})
}

// Ids that only the stream remembers, an invalid node announcement, and keys of
// another type do not block the source either.
func TestRepairOfWhatIsInNoList(t *testing.T) {
	p := redistest.Server(t)
	const key = "stint:rules:{rules}:"
	for name, forge := range map[string]func(){
		"an id that is gone": func() {
			p.Must("XADD", key+"versions", "18446744073709551615-1", "version", "x")
			p.Must("XDEL", key+"versions", "18446744073709551615-1")
		},
		"files of another type": func() { p.Must("SET", key+"files", "x") },
		"an entry of thousands of fields": func() {
			fields := []string{"XADD", key + "versions", "9007199254740991-0"}
			for range 9000 {
				fields = append(fields, "a", "b")
			}
			p.Must(fields...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.Must("FLUSHALL")
			s := open(t, single(p.Addr(), ""))
			if _, err := s.Publish(t.Context(), 0, ruletest.Rules(1, "one")); err != nil {
				t.Fatal(err)
			}
			p.Must("DEL", key+"files")
			forge()
			if v, err := s.Publish(t.Context(), 1, ruletest.Rules(2, "two")); err == nil {
				t.Fatalf("version %d is published", v.Number)
			}
			r := ruleset.Repairing{Sure: func(ruleset.Findings) error { return nil }}
			if _, err := ruleset.Repair(t.Context(), s, r); err == nil {
				t.Error("a version without files is published again")
			}
			r.Files = ruletest.Rules(1, "mended").Files
			if v, err := ruleset.Repair(t.Context(), s, r); err != nil || v.Number != 2 {
				t.Fatalf("%+v, %v", v, err)
			}
			if v, err := s.Publish(t.Context(), 2, ruletest.Rules(3, "three")); err != nil || v.Number != 3 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestRepairOfAListOfAnotherType also checks that numbers continue after the
// number that nodes run, because nodes would reject a lower one.
func TestRepairOfAListOfAnotherType(t *testing.T) {
	p := redistest.Server(t)
	const key = "stint:rules:{rules}:"
	for name, c := range map[string]struct {
		runs   uint64
		forged []string // keys
		want   uint64
	}{
		"the list":            {7, []string{"versions"}, 8},
		"the list and files":  {7, []string{"versions", "files"}, 8},
		"everything":          {7, []string{"versions", "files", "nodes", "seen"}, 1},
		"a node from nowhere": {1 << 60, []string{"versions"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p.Must("FLUSHALL")
			s := open(t, single(p.Addr(), ""))
			if _, err := s.Publish(t.Context(), 0, ruletest.Rules(7, "seven")); err != nil {
				t.Fatal(err)
			}
			if err := s.Announce(t.Context(), ruleset.Node{ID: "n", Version: c.runs}); err != nil {
				t.Fatal(err)
			}
			for _, k := range c.forged {
				p.Must("SET", key+k, "x")
			}
			if _, err := s.History(t.Context(), 1); !errors.Is(err, ruleset.ErrDamaged) || !strings.Contains(err.Error(), "rules repair") {
				t.Errorf("history: %v", err)
			}
			if _, err := s.Publish(t.Context(), 7, ruletest.Rules(8, "eight")); !errors.Is(err, ruleset.ErrDamaged) {
				t.Errorf("publish: %v", err)
			}
			r := ruleset.Repairing{Sure: func(ruleset.Findings) error { return nil }}
			if _, err := ruleset.Repair(t.Context(), s, r); err == nil {
				t.Error("rules that nobody can read are published again")
			}
			r.Files = ruletest.Rules(1, "mended").Files
			if v, err := ruleset.Repair(t.Context(), s, r); err != nil || v.Number != c.want {
				t.Fatalf("%+v, %v, want version %d", v, err, c.want)
			}
			if v, err := s.Get(t.Context(), c.want); err != nil || !v.Repaired {
				t.Errorf("%+v, %v", v, err)
			}
			if err := s.Announce(t.Context(), ruleset.Node{ID: "n", Version: c.want}); err != nil {
				t.Error(err)
			}
		})
	}
}

// An announcement cannot push numbers beyond the highest valid one.
func TestAnAnnouncementUsesUpNoNumbers(t *testing.T) {
	p := redistest.Server(t)
	s := open(t, single(p.Addr(), ""))
	k := ruleset.NewManager(ruleset.Options{Source: s, OnSet: func(*rule.Set, ruleset.Version) {}})
	for n, claimed := range []uint64{math.MaxUint64, ruleset.MaxNumber, 1 << 40} {
		if err := s.Announce(t.Context(), ruleset.Node{ID: "evil", Version: claimed}); err != nil {
			t.Fatal(err)
		}
		_, newest, err := k.Base(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v, err := k.Publish(t.Context(), ruleset.Change{Files: ruletest.Rules(1, fmt.Sprint("r", n)).Files, After: newest.Number})
		if err != nil || v.Number != uint64(n)+1 {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

// A text that another program has written cannot be a secret that callers do not know. A repair
// replaces it, and a right one, too, because whoever wrote to Redis may know that.
func TestAWrongSecretIsRefusedAndRepaired(t *testing.T) {
	p := redistest.Server(t)
	s := open(t, single(p.Addr(), ""))
	const key, right = "stint:rules:{rules}:secret", "the secret of all nodes"
	for _, write := range [][]string{{"SET", key, "x"}, {"SET", key, strings.Repeat("x", 1000)}, {"HSET", key, "x", "y"}} {
		p.Must("DEL", key)
		p.Must(write...)
		if got, err := s.Secret(t.Context(), right); err == nil || got != "" || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "run stint rules repair --source URL FILE") {
			t.Errorf("%q, %v", got, err)
		}
		known := map[string]bool{right: true}
		for range 2 {
			if err := s.Truncate(t.Context(), 0); err != nil {
				t.Error(err)
			}
			got, err := s.Secret(t.Context(), right)
			if err != nil || known[got] || ruleset.CheckSecret(got) != nil {
				t.Errorf("%q, %v", got, err)
			}
			known[got] = true
		}
	}
}
