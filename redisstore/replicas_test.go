package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// ample is a timeout that suffices for replicas on a busy machine.
const ample = 20 * time.Second

// charging counts in its key. It replies as the scripts of checks do: the time, then the
// number of charges.
var charging = newScript(`return struct.pack('>i7I4', redis.call('TIME')[1], redis.call('INCR', KEYS[1]))`)

func chargedOf(r reply) string {
	_, n, _, err := readHead([]byte(r.data), 0)
	if err != nil {
		return err.Error()
	}
	return strconv.Itoa(n)
}

func TestCallWaitsForReplicas(t *testing.T) {
	servers := redistest.Sentinel(t)
	top := newTestTopology(t, Options{Addrs: []string{servers.Master().Addr()}, Timeout: ample, ReplicaTimeout: ample})
	calls := []invocation{{script: charging, keys: []string{"k"}, replicas: 2}}
	replies := make([]reply, 1)
	for range 20 {
		top.nodeOf(0).send(t.Context(), calls, replies)
		if replies[0].err != nil || replies[0].acked != 2 {
			t.Fatal(replies[0])
		}
		for _, p := range servers.Servers {
			if got := p.Must("GET", "k"); got != chargedOf(replies[0]) {
				t.Fatalf("%s has %s when the call for 2 replicas answers %s", p.Addr(), got, chargedOf(replies[0]))
			}
		}
	}
}

func TestReplicasThatDoNotAnswerAreNotCounted(t *testing.T) {
	servers := redistest.Sentinel(t)
	master := servers.Master()
	top := newTestTopology(t, Options{Addrs: []string{master.Addr()}, ReplicaTimeout: 50 * time.Millisecond})
	for _, p := range servers.Servers {
		if p != master {
			p.Freeze()
			defer p.Thaw()
		}
	}
	calls := []invocation{{script: charging, keys: []string{"k"}, replicas: 1}}
	replies := make([]reply, 1)
	top.nodeOf(0).send(t.Context(), calls, replies)
	if replies[0].err != nil || replies[0].acked != 0 || chargedOf(replies[0]) != "1" {
		t.Error(replies[0])
	}
	if got := master.Must("GET", "k"); got != "1" {
		t.Error("the charge does not stand:", got)
	}
}

func TestLostScriptIsSentAgainAndWaitsForReplicas(t *testing.T) {
	servers := redistest.Sentinel(t)
	master := servers.Master()
	top := newTestTopology(t, Options{Addrs: []string{master.Addr()}, Timeout: ample, ReplicaTimeout: ample})
	if _, err := count(t, top, "k"); err != nil {
		t.Fatal(err)
	}
	master.Must("SCRIPT", "FLUSH")
	one := invocation{script: charging, keys: []string{"k"}, replicas: 2}
	replies := make([]reply, 2)
	top.nodeOf(0).send(t.Context(), []invocation{one, one}, replies)
	for i, want := range []string{"2", "3"} {
		if r := replies[i]; r.err != nil || chargedOf(r) != want || r.acked != 2 {
			t.Error(i, r)
		}
	}
}

func TestUnconfirmedChargeStands(t *testing.T) {
	servers := redistest.Sentinel(t)
	claim := stint.Claim{Key: "k", Limit: perHour(t, 10), Cost: 1}
	for _, c := range []struct {
		replicas  uint8
		waits     time.Duration
		kind      stint.Kind
		remaining int64 // by the answer to a peek
	}{{2, ample, "", 9}, {3, 50 * time.Millisecond, "replicas", 8}, {0, ample, "", 7}} {
		store := open(t, Options{Topology: Sentinel, Addrs: servers.Addrs(), Master: servers.Name, Timeout: ample, ReplicaTimeout: c.waits})
		claim.Policy.Replicas = c.replicas
		_, err := store.Take(t.Context(), claim)
		if c.kind != "" {
			wantError(t, err, stint.CodeUnavailable, c.kind)
		} else if err != nil {
			t.Fatal(err)
		}
		d, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: claim.Limit})
		if err != nil || d.Remaining != c.remaining {
			t.Errorf("%d replicas asked for: %d remain, %v; want %d", c.replicas, d.Remaining, err, c.remaining)
		}
	}
}

// frozenReplicas starts a master whose replicas confirm nothing, so that every WAIT lasts
// until its timeout.
func frozenReplicas(t *testing.T) *redistest.Process {
	t.Helper()
	servers := redistest.Sentinel(t)
	master := servers.Master()
	for _, p := range servers.Servers {
		if p != master {
			p.Freeze()
			t.Cleanup(p.Thaw)
		}
	}
	return master
}

// waits returns how many WAIT commands a server got.
func waits(t *testing.T, p *redistest.Process) string {
	t.Helper()
	for line := range strings.Lines(p.Must("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_wait:calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			return n
		}
	}
	return "0"
}

// Only a charge waits for replicas, in a call of its own and in a batch. A shadow group
// does not wait.
func TestOnlyAChargeWaitsForReplicas(t *testing.T) {
	master := frozenReplicas(t)
	s := open(t, Options{Addrs: []string{master.Addr()}, ReplicaTimeout: time.Millisecond})
	before := waits(t, master) // AwaitReplicas sent one too
	replicas := stint.Policy{Replicas: 1}
	one := stint.Claim{Key: "one", Limit: perHour(t, 1), Cost: 1, Policy: replicas}
	plain := one
	plain.Policy.Replicas = 0
	if _, err := s.Take(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	peek, back, reset, never := one, one, one, one
	peek.Cost, back.Cost, reset.Cost, never.Cost = 0, -1, stint.Forget, 2
	extra := one
	extra.Cost, extra.Extra = 0, 5
	other := stint.Claim{Key: "other", Limit: perHour(t, 100), Cost: 1}
	shadow := other
	shadow.Policy = replicas
	for what, groups := range map[string][]stint.Group{
		"a denial":                   {{Claims: []stint.Claim{one}}},
		"a peek":                     {{Claims: []stint.Claim{peek}}},
		"extra that is not there":    {{Claims: []stint.Claim{extra}}},
		"a cost that never fits":     {{Claims: []stint.Claim{never}}},
		"a group that denies":        {{Claims: []stint.Claim{other, never}}},
		"a denial among others":      {{Claims: []stint.Claim{other}}, {Claims: []stint.Claim{never}}},
		"a shadow":                   {{Claims: []stint.Claim{other}, Shadows: [][]stint.Claim{{shadow}}}},
		"a shadow alone":             {{Shadows: [][]stint.Claim{{shadow}}}},
		"a dry group":                {{Claims: []stint.Claim{shadow}, Dry: true}},
		"a give-back, and a reset":   {{Claims: []stint.Claim{back}}, {Claims: []stint.Claim{reset}}},
		"a group that charges alone": {{Claims: []stint.Claim{other}}},
	} {
		claims, _ := stint.Sizes(groups)
		if err := s.TakeGroups(t.Context(), groups, make([]stint.Decision, claims)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if after := waits(t, master); after != before {
			t.Fatalf("%s waits for replicas", what)
		}
		if _, err := s.Take(t.Context(), plain); err != nil { // so that each case begins with an exhausted key
			t.Fatal(err)
		}
	}
	if _, err := s.Take(t.Context(), shadow); err == nil || waits(t, master) == before {
		t.Errorf("a charge does not wait: %v", err)
	}
}

// Groups of one call that do not ask for replicas succeed although other groups of the
// call lack replicas.
func TestGroupsWithoutReplicasDoNotFailWithOthers(t *testing.T) {
	s := open(t, Options{Addrs: []string{frozenReplicas(t).Addr()}, ReplicaTimeout: time.Millisecond})
	plain := stint.Claim{Key: "plain", Limit: perHour(t, 100), Cost: 1}
	asks := stint.Claim{Key: "asks", Limit: perHour(t, 100), Cost: 1, Policy: stint.Policy{Replicas: 1}}
	groups := []stint.Group{
		{Claims: []stint.Claim{plain}},
		{Claims: []stint.Claim{asks}, Shadows: [][]stint.Claim{{plain}}}, // the charge stands, though too few replicas have it
		{Claims: []stint.Claim{plain}},
		{Claims: []stint.Claim{plain, asks}},
	}
	out := make([]stint.Decision, 6)
	err := s.TakeGroups(t.Context(), groups, out)
	failed, ok := errors.AsType[*stint.GroupsError](err)
	if !ok {
		t.Fatal(err)
	}
	for i, err := range failed.Errs {
		if i == 1 || i == 4 {
			wantError(t, err, stint.CodeUnavailable, "replicas")
		} else if err != nil {
			t.Errorf("group %d: %v", i, err)
		}
	}
	if !out[0].Allowed || !out[3].Allowed {
		t.Error(out)
	}
}

// Groups on one key are decided in order, also when only some ask for replicas.
func TestGroupsOnOneKeyAreDecidedInOrder(t *testing.T) {
	servers := redistest.Sentinel(t)
	s := open(t, Options{Addrs: []string{servers.Master().Addr()}, Timeout: ample, ReplicaTimeout: ample})
	var groups []stint.Group
	for i := range 30 {
		c := stint.Claim{Key: "k", Limit: perHour(t, 100), Cost: 1, Policy: stint.Policy{Replicas: uint8(i % 3)}}
		if i%5 == 4 {
			last := &groups[len(groups)-1]
			last.Shadows = append(last.Shadows, []stint.Claim{c})
		} else {
			groups = append(groups, stint.Group{Claims: []stint.Claim{c}})
		}
	}
	out := make([]stint.Decision, 30)
	if err := s.TakeGroups(t.Context(), groups, out); err != nil {
		t.Fatal(err)
	}
	for i, d := range out {
		if want := int64(99 - i); d.Remaining != want {
			t.Fatalf("group %d: %d remain, want %d", i, d.Remaining, want)
		}
	}
}

// A caller whose time ends during the wait for replicas gets KindReplicas: the master had
// answered.
func TestErrorOfALateReplicaNamesTheReplicas(t *testing.T) {
	master := frozenReplicas(t)
	s := open(t, Options{Addrs: []string{master.Addr()}, Timeout: ample, ReplicaTimeout: ample})
	c := stint.Claim{Key: "k", Limit: perHour(t, 100), Cost: 1}
	if _, err := s.Take(t.Context(), c); err != nil { // connected
		t.Fatal(err)
	}
	c.Policy.Replicas = 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := s.Take(ctx, c)
		ended <- err
	}()
	redistest.Await(t, func() error { // Valkey counts a WAIT only when it ends
		if !strings.Contains(master.Must("INFO", "clients"), "blocked_clients:1") {
			return errors.New("nobody waits")
		}
		return nil
	})
	cancel()
	wantError(t, <-ended, stint.CodeCanceled, "canceled")
	late, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	_, err := s.Take(late, c)
	wantError(t, err, stint.CodeUnavailable, "replicas")
	if d, err := s.Take(t.Context(), stint.Claim{Key: "k", Limit: c.Limit}); err != nil || d.Remaining != 97 {
		t.Errorf("%+v, %v: the charges do not stand", d, err)
	}
}

// On a Cluster each master waits for its own replicas. Other groups of a call may have
// their keys on other masters.
func TestChargesOfAClusterWaitForReplicas(t *testing.T) {
	servers := redistest.Cluster(t, 3, 3)
	s := open(t, Options{Topology: Cluster, Addrs: servers.Addrs()[:1], Timeout: ample, ReplicaTimeout: ample})
	eventually(t, "the cluster is connected", func() bool { return s.Stats().Up })
	var groups []stint.Group
	for i := range 12 {
		c := stint.Claim{Key: "k" + strconv.Itoa(i), Limit: perHour(t, 10), Cost: 1, Policy: stint.Policy{Replicas: uint8(i % 2)}}
		groups = append(groups, stint.Group{Claims: []stint.Claim{c}})
	}
	groups = append(groups, stint.Group{Claims: []stint.Claim{groups[1].Claims[0], groups[3].Claims[0], groups[5].Claims[0]}})
	out := make([]stint.Decision, 15)
	if err := s.TakeGroups(t.Context(), groups, out); err != nil {
		t.Fatal(err)
	}
	for i, d := range out {
		want := int64(9)
		if i >= 12 {
			want = 8
		}
		if !d.Allowed || d.Remaining != want {
			t.Errorf("%d: %+v, want %d to remain", i, d, want)
		}
	}
	waited := false
	for _, p := range servers.Masters() {
		waited = waited || waits(t, p) != "0"
	}
	if !waited {
		t.Error("no master was asked to wait")
	}
}
