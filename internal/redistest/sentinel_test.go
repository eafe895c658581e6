package redistest

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSentinelPromotesWhenTheMasterDies(t *testing.T) {
	begun := time.Now()
	s := Sentinel(t)
	t.Logf("ready in %v", time.Since(begun))
	master := s.Master()
	if master != s.Servers[0] {
		t.Fatalf("the master is %s", master.Addr())
	}
	master.Must("SET", "a", "1")
	begun = time.Now()
	master.AwaitReplicas(2)
	t.Logf("in step after %v", time.Since(begun))
	begun = time.Now()
	master.Kill()
	promoted := s.AwaitPromotion(master)
	t.Logf("promoted after %v", time.Since(begun))
	if got := promoted.Must("GET", "a"); got != "1" {
		t.Errorf("a: %q after the failover", got)
	}
	master.Restart()
	Await(t, func() error {
		if role, err := master.Info("role"); err != nil || role != "slave" {
			return errors.Join(errors.New("the killed master is "+role), err)
		}
		return nil
	})
}

func TestSentinelFailsOverInGoodOrder(t *testing.T) {
	s := Sentinel(t, "--requirepass", "secret", "--masterauth", "secret")
	from := s.Master()
	if promoted := s.Failover(); promoted == from {
		t.Error("the master did not change")
	}
}

// A Sentinel that finds no replica to promote refuses, or gives up later.
func TestFailoverIsAskedForUntilItIsDone(t *testing.T) {
	s := Sentinel(t)
	from := s.Master()
	prefer := func(priority string) {
		for _, p := range s.Servers {
			p.Must("CONFIG", "SET", "replica-priority", priority)
		}
	}
	prefer("0")
	Await(t, func() error {
		state, err := s.Watchers[0].Do("SENTINEL", "REPLICAS", s.Name)
		if err != nil || strings.Count(state, "slave-priority\n0") == len(s.Servers)-1 {
			return err
		}
		return errors.New("the sentinel has not heard of the priorities")
	})
	if _, err := s.Watchers[0].Do("SENTINEL", "FAILOVER", s.Name); err == nil {
		t.Error("a replica of priority 0 is to be promoted")
	}
	prefer("100") // of which the sentinel hears within 200 ms
	if s.Failover() == from {
		t.Error("the master did not change")
	}
}
