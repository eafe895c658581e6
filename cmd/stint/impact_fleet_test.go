package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

const (
	fleetOld    = "rules:\n  - {id: a, by: [api_key], limit: 1000, window: 1h}\n"
	fleetStrict = "rules:\n  - {id: a, by: [api_key], limit: 80, window: 1h}\n"
)

// Each node has 60 of the 120 requests of a caller. A limit of 80 denies none of them on one
// node, and 40 of them on both.
func TestTheImpactIsThatOnAllNodes(t *testing.T) {
	redis := redistest.Server(t)
	url := "redis://" + redis.Addr()
	serve := func(args ...string) *administered {
		return administer(t, append([]string{"--rules", url, "--store", url}, args...)...)
	}
	a, b := serve(), serve()
	a.run(exitDone, []string{"version 1"}, "rules", "apply", a.file("old.yaml", fleetOld))
	b.wait("rules reloaded")
	both := []string{"--server", a.env[0][len("STINT_SERVER="):] + "," + b.env[0][len("STINT_SERVER="):]}
	strict := a.file("strict.yaml", fleetStrict)
	redistest.Await(t, func() error { // both nodes have the secret
		if got := command(t, nil, append(both, "rules", "impact", strict)...); got.status != exitDone {
			return errors.New(got.errors)
		}
		return nil
	})
	a.traffic(60)
	b.traffic(60)

	a.run(exitDone, []string{"none on the 60 requests"}, "rules", "impact", strict)
	together := []string{"on the requests of 2 nodes together", "denies 40 of the 120 requests allowed", "of 1 caller"}
	a.run(exitDone, together, append(both, "rules", "impact", strict)...)
	a.env = []string{"STINT_SERVER=" + both[1]}
	if got := command(t, a.env, "rules", "impact", "--detailed-exitcode", strict); got.status != exitDifferent {
		t.Errorf("status %d\n%s", got.status, got.errors)
	}
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "one.yaml"), fleetStrict)
	writeFile(t, filepath.Join(folder, "two.yaml"), "deny: [nobody]\n")
	a.run(exitDone, together, "rules", "impact", folder)
	a.run(exitFailed, []string{"denies 40 of the 120", "--yes=impact"}, "rules", "apply", strict)
	a.run(exitDone, []string{"version 2"}, "rules", "apply", "--yes=impact", strict)
	b.wait("rules reloaded")
	a.run(exitDone, []string{"on the requests of 2 nodes", "admits"}, "rules", "rollback", "--dry-run", "1")

	// Every named server must count.
	for want, other := range map[string]string{
		"no sample of requests from http://127.0.0.1:1": "http://127.0.0.1:1",
		"shares no secret with other nodes":             administer(t, "--rules", strict).env[0][len("STINT_SERVER="):],
		"keeps no requests":                             serve("--impact-limit", "off").env[0][len("STINT_SERVER="):],
	} {
		for _, command := range [][]string{{"impact"}, {"apply", "--dry-run"}} {
			args := append([]string{"rules"}, append(command, "--server", both[1]+","+other, strict)...)
			a.run(exitFailed, []string{want, "leave the address out"}, args...)
		}
	}
	a.run(exitUsage, []string{"an address is given twice"}, "rules", "impact", "--server", fmt.Sprint(both[1], ",", both[1]), strict)
	a.run(exitDone, nil, "rules", "apply", "--dry-run", "--source", url, strict) // the servers of STINT_SERVER are not asked
}
