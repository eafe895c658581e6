package rule

import (
	"strings"
	"testing"

	"github.com/stintdev/stint"
)

// claimsOf returns the claims of a set for a request.
func claimsOf(t *testing.T, text string, a Map) []stint.Claim {
	t.Helper()
	s := mustParse(t, text)
	q := s.borrow(a, 1)
	q.collectClaims()
	if q.err != nil {
		t.Fatal(q.err)
	}
	return q.enforced
}

func TestLocalLimitStandsInUnderItsOwnIdentity(t *testing.T) {
	for name, c := range map[string]struct{ local, want string }{
		"the rule's identity":        {"{limit: 10/s}", "a"},
		"one of its own":             {"{limit: 10/s, by: [ip]}", "192.0.2.1"},
		"several parts":              {"{limit: 10/s, by: [ip, method]}", "192.0.2.1|GET"},
		"a missing part is the ip's": {"{limit: 10/s, by: [user]}", "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := claimsOf(t, "rules: [{id: r, missing: skip, limits: [1/s, 2/m], on_store_failure: {local: "+c.local+"}}]",
				Map{"api_key": "a", "ip": "192.0.2.1", "method": "GET"})
			local := got[0].Local
			if local == nil || KeyText(local.Key) != c.want || local.Limit.Max() != 10 || got[0].Policy.OnFailure != stint.FailLocal {
				t.Fatalf("got %+v, want the key %s", local, c.want)
			}
			if local.Limit.Rule() != "r" || local.Limit.Name() != "local" || got[0].Key != "a" {
				t.Errorf("got %v under %q", local.Limit, got[0].Key)
			}
			if got[1].Local != local {
				t.Error("each limit of the rule has a stand-in of its own, so that one request would count twice")
			}
		})
	}
}

func TestShareStandsInWhereNoLimitIsNamed(t *testing.T) {
	got := claimsOf(t, "rules: [{id: r, limit: 1/s, on_store_failure: local}]", Map{"api_key": "a"})
	if got[0].Policy.OnFailure != stint.FailLocal || got[0].Local != nil {
		t.Errorf("got %+v", got[0])
	}
}

func TestRuleDecidesByWhatTheNodeLastKnew(t *testing.T) {
	got := claimsOf(t, "rules: [{id: r, limit: 1/s, on_store_failure: last_known}]", Map{"api_key": "a"})
	if got[0].Policy.OnFailure != stint.FailLastKnown || got[0].Local != nil {
		t.Errorf("got %+v", got[0])
	}
}

func TestLocalIdentityThatCannotBeIsTheRequestsFault(t *testing.T) {
	s := mustParse(t, "rules: [{id: r, limit: 1/s, on_store_failure: {local: {limit: 1/s, by: [user]}}}]")
	now := int64(1)
	_, err := s.Decide(t.Context(), newStore(t, &now), Map{"api_key": "a", "user": "\n"}, 1)
	if err == nil || !strings.Contains(err.Error(), "user: ") {
		t.Errorf("got %v", err)
	}
}

func TestReplicasTravelWithTheClaims(t *testing.T) {
	got := claimsOf(t, "rules: [{id: r, limit: 1/s, replicas: 2}]", Map{"api_key": "a"})
	if got[0].Policy.Replicas != 2 {
		t.Errorf("got %+v", got[0].Policy)
	}
}

func TestMistakesOfFailurePoliciesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"replicas: 17":  "replicas: ",
		"replicas: -1":  "replicas: ",
		"replicas: two": "replicas: ",
		"cost: 5, on_store_failure: {local: {limit: 4, window: 1s}}":      "more than limit local ever allows",
		"on_store_failure: {local: {limit: 4, window: 1s, by: [ip, ip]}}": "named twice",
	} {
		_, err := Parse(File{"r.yaml", []byte("rules: [{id: r, limit: 10/s, " + text + "}]")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
