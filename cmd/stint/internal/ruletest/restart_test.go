package ruletest_test

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/pgrules"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/internal/pgtest"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/rule"
)

// runs waits until a node decides by a version.
func runs(t *testing.T, n *node, version int) {
	t.Helper()
	redistest.Await(t, func() error {
		d, err := n.check()
		if err == nil && !strings.HasPrefix(d.Rule, fmt.Sprintf("v%d-", version)) {
			err = fmt.Errorf("decides by %s, want version %d", d.Rule, version)
		}
		return err
	})
}

// A node is killed and starts again while the source is down. It decides by its
// local copy, and updates when the source is back. A node without a copy
// decides by the built-in rules.
func TestANodeStartsWithoutItsSource(t *testing.T) {
	p, address := server(t)
	ann := newOperator(t, p.Addr())
	ann.publish(manyRules(1, 3))
	state := t.TempDir()
	n := startNode(t, state, "--rules", address)
	runs(t, n, 1)
	p.Kill()
	n.kill()

	n = startNode(t, state, "--rules", address)
	runs(t, n, 1)
	n.awaitHealth("rules: version 1, published ", "STALE", "rules source: down") // after three polls
	fresh := startNode(t, t.TempDir(), "--rules", address)
	if d, err := fresh.check(); err != nil || d.Rule != "default" {
		t.Errorf("without a copy: %+v, %v", d, err)
	}

	p.Restart() // and empty: as one who publishes again finds it
	redistest.Await(t, func() error {
		_, err := ann.Publish(t.Context(), ruleset.Change{Files: []rule.File{{Name: "a.yaml", Data: []byte(manyRules(2, 3))}}, Anyway: true})
		return err
	})
	runs(t, n, 2)
	runs(t, fresh, 2)
	n.awaitHealth("rules: version 2, published ", "rules source: up")
	if n.kill(); strings.Count(n.log.String(), "STALE") != 1 {
		t.Errorf("the log says not once that the rules are stale:\n%s", n.log)
	}
}

// awaitHealth waits until a node's readiness page contains the given texts. The
// page must say STALE exactly if that is one of them.
func (n *node) awaitHealth(parts ...string) {
	n.t.Helper()
	redistest.Await(n.t, func() error {
		r, err := n.client.Get("http://" + n.addr + "/readyz?verbose")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		for _, part := range parts {
			if !strings.Contains(string(body), part) {
				return fmt.Errorf("%q lacks %q (%w)", body, part, err)
			}
		}
		if strings.Contains(string(body), "STALE") != slices.Contains(parts, "STALE") {
			return fmt.Errorf("%q says not truly whether it is stale", body)
		}
		return nil
	})
}

// A source that accepts connections but never answers does not block the start.
func TestANodeStartsBesideASourceThatIsSilent(t *testing.T) {
	p, address := server(t)
	p.Freeze()
	begun := time.Now()
	n := startNode(t, t.TempDir(), "--rules", address)
	if took := time.Since(begun); took > 6*time.Second {
		t.Errorf("ready after %v", took)
	}
	p.Thaw()
	newOperator(t, p.Addr()).publish(manyRules(1, 3))
	runs(t, n, 1)
}

// Three nodes use PostgreSQL as their source and announce the version that they
// run.
func TestNodesFollowPostgres(t *testing.T) {
	skipShort(t)
	s := pgtest.Start(t)
	address := strings.Replace(s.URL(), "stint@", "stint:"+url.QueryEscape(pgtest.Password)+"@", 1)
	source, err := pgrules.New(pgrules.Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	ann := &operator{t, ruleset.NewManager(ruleset.Options{Source: source, OnSet: func(*rule.Set, ruleset.Version) {}})}
	var fleet []*node
	for range 3 {
		fleet = append(fleet, startNode(t, t.TempDir(), "--rules", address))
	}
	for version := 1; version <= 3; version++ {
		v := ann.publish(manyRules(version, 3))
		for _, n := range fleet {
			runs(t, n, version)
		}
		redistest.Await(t, func() error {
			nodes, err := source.Nodes(t.Context())
			if err != nil || len(nodes) != 3 {
				return fmt.Errorf("%d nodes, %w", len(nodes), err)
			}
			for _, one := range nodes {
				if one.Version != v.Number || one.Hash != v.Hash || one.Address == "" {
					return fmt.Errorf("%+v runs not version %d", one, v.Number)
				}
			}
			return nil
		})
	}
	for _, n := range fleet {
		n.kill()
		if strings.Contains(n.log.String(), "secret") {
			t.Errorf("the log shows the password:\n%s", n.log)
		}
	}
}
