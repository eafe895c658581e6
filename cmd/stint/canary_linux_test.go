package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

// A node that is killed and starts again, also while the source of the rules is away, applies the
// canary to the same callers. An emergency holds on both sides. Of two operators one ends it.
func TestACanarySurvivesRestartsAndEmergencies(t *testing.T) {
	redis, store := redistest.Server(t), redistest.Server(t)
	serve := []string{"--rules", "redis://" + redis.Addr(), "--store", "redis://" + store.Addr(), "--state-dir", t.TempDir()}
	first := startServer(t, nil, serve...)
	a := &administered{first, []string{"STINT_SERVER=http://" + first.addr("admin")}, t.TempDir()}
	a.run(exitDone, nil, "rules", "apply", a.file("old.yaml", canaryOld))
	a.run(exitDone, nil, "rules", "apply", "--yes", "--canary", "0.3", "--soak", "1h", "--abort-above", "100%", a.file("new.yaml", canaryNew))
	keys := canaryKeys(100)
	canary, control := sides(limits(t, first, keys))
	if len(canary) < 10 || len(control) < 10 {
		t.Fatalf("%d of %d callers are in the canary", len(canary), len(keys))
	}
	killed(first)
	second := startServer(t, nil, serve...)
	second.wait(`msg="canary on" canary=2 share=0.3`)
	if again, _ := sides(limits(t, second, keys)); !slices.Equal(again, canary) {
		t.Error("after a restart other callers are in the canary")
	}
	killed(second)
	paused(t, redis, syscall.SIGSTOP)
	third := startServer(t, nil, serve...)
	third.wait("STALE")
	if again, _ := sides(limits(t, third, keys)); !slices.Equal(again, canary) {
		t.Error("without the source other callers are in the canary")
	}
	paused(t, redis, syscall.SIGCONT)
	a.env = []string{"STINT_SERVER=http://" + third.addr("admin")}
	third.wait("the source confirms the version of the local copy")

	a.run(exitDone, []string{"ON"}, "emergency", "on", "--limit", "1/m", "--by", "api_key", "--for", "10m")
	for _, key := range []string{canary[0], control[0]} {
		body := fmt.Sprintf(`{"attributes":{"api_key":%q,"path":"/x"}}`, key)
		posted(t, "http://"+third.addr("http")+"/v1/check", body)
		if got := posted(t, "http://"+third.addr("http")+"/v1/check", body); !strings.Contains(got, `"rule":"emergency"`) || !strings.Contains(got, `"allowed":false`) {
			t.Errorf("%s in an emergency: %s", key, got)
		}
	}
	if again, _ := sides(limits(t, third, keys)); !slices.Equal(again, canary) {
		t.Error("in an emergency other callers are in the canary")
	}
	a.run(exitDone, nil, "emergency", "off")

	var done sync.WaitGroup
	status := make([]int, 2)
	for i, verb := range []string{"promote", "abort"} {
		done.Go(func() {
			got := command(t, a.env, "rules", verb, "2")
			if status[i] = got.status; got.status != exitDone && !strings.Contains(got.errors, "409") {
				t.Errorf("%s: %s", verb, got.errors)
			}
		})
	}
	done.Wait()
	if status[0]+status[1] != exitFailed {
		t.Errorf("two operators: %v", status)
	}
	a.run(exitFailed, []string{"no canary is on: the newest version is 3"}, "rules", "abort")
	if met := limits(t, third, keys); (met[control[0]] == 1) != (status[0] == exitDone) || (met[canary[0]] == 1) != (status[0] == exitDone) {
		t.Errorf("promoted: %v, and the limits are %d and %d", status[0] == exitDone, met[control[0]], met[canary[0]])
	}
}

// killed kills a server as a crash would, and waits for its end.
func killed(p *process) {
	_ = p.cmd.Process.Kill() // fails if the process has ended
	<-p.ended
}

// paused stops a Redis that keeps its data, or lets it go on.
func paused(t *testing.T, redis *redistest.Process, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(redis.Pid(), signal); err != nil {
		t.Fatal(err)
	}
}
