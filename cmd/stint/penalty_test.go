package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/internal/redistest"
)

const punishing = `rules:
  - id: api
    limit: 1
    window: 1s
    penalty: {after: 3, window: 10m, cool_down: 1h, max: 1h, ban_after: 1, ban: 20h, forget: 2h}
`

// Two servers share a store: a penalty by one is enforced by the other, and ends on
// both.
func TestPenaltiesAreSharedShownAndReversible(t *testing.T) {
	redis := redistest.Server(t)
	args := []string{"--store", "redis://" + redis.Addr(), "--store-deadline", "5s", "--store-slow", "0"}
	a, b := administer(t, args...), administer(t, args...)
	file := a.file("rules.yaml", punishing)
	for _, one := range []*administered{a, b} {
		one.run(exitDone, []string{"1 added (api)"}, "rules", "apply", file)
	}
	retry := func(one *administered) float64 {
		t.Helper()
		var d map[string]any
		got := command(t, nil, "check", "--json", "--server", "http://"+one.addr("http"), "api_key=sk_live_12345", "path=/")
		if err := json.Unmarshal([]byte(got.out), &d); err != nil {
			t.Fatal(err, got)
		}
		if d["allowed"] == true {
			return 0
		}
		return d["retry_after_ms"].(float64)
	}
	for range 100 { // one request a second is allowed, and three denials begin the cool-down
		if retry(a) > 3_500_000 {
			break
		}
	}
	if got := retry(b); got <= 3_500_000 || got > 3_600_000 {
		t.Fatalf("the other server denies for %v ms, want an hour", got)
	}
	b.run(exitDone, []string{"api   penalty          1   0          59m", "penalty.strikes", "penalty.levels"}, "key", "peek", "sk_live_12345")
	metrics, err := http.Get("http://" + a.addr("admin") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	text, _ := io.ReadAll(metrics.Body)
	if !strings.Contains(string(text), `stint_penalties_total{penalty="cool_down",rule="api"} 1`) || !strings.Contains(string(text), `stint_penalty_denials_total{rule="api"}`) {
		t.Error("no metrics of penalties")
	}
	b.run(exitDone, []string{"1 penalty of sk_l… is ended\n"}, "key", "unban", "sk_live_12345")
	b.run(exitFailed, []string{"404"}, "key", "unban", "sk_live_12345")
	for _, one := range []*administered{a, b} {
		if got := retry(one); got > 1000 {
			t.Errorf("still denied for %v ms", got)
		}
	}
}

// The gateway closes the connection of a client that never backs off.
func TestTheGatewayClosesConnectionsAfterTheSetDenials(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), oneAMinute)
	p := startServer(t, nil, "--rules", rules, "--gateway", "127.0.0.1:0", "--upstream", upstream.URL, "--gateway-close-after", "3")
	closes := []bool{}
	for range 4 {
		r, err := http.Get("http://" + p.addr("gateway") + "/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		closes = append(closes, r.Close)
	}
	if want := []bool{false, false, false, true}; !slices.Equal(closes, want) {
		t.Errorf("%v, want the third denial to be the last of its connection", closes)
	}
	for range 4 { // the clients of a proxy that nobody named share its address
		r, err := http.Get("http://" + p.addr("gateway") + "/")
		if err != nil {
			t.Fatalf("%v; want no refusal by address", err)
		}
		r.Body.Close()
	}
}

func TestTheGatewayRefusesAnAddressForTheSetTime(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	rules := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), oneAMinute)
	p := startServer(t, nil, "--rules", rules, "--gateway", "127.0.0.1:0", "--upstream", upstream.URL, "--gateway-close-after", "3", "--gateway-refuse-for", "1h")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 4 {
		r, err := client.Get("http://" + p.addr("gateway") + "/")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	if r, err := client.Get("http://" + p.addr("gateway") + "/"); err == nil {
		r.Body.Close()
		t.Errorf("%s; want a refused connection", r.Status)
	}
}

func TestBoundsOfTheGatewayThatBoundNothingAreRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--gateway-close-after", "-1"}, "gateway-close-after: -1 is below 0"},
		{[]string{"--gateway-refuse-for", "2h"}, "gateway-refuse-for: 2h0m0s is out of range"},
		{[]string{"--gateway-refuse-for", "1m"}, "gateway-refuse-for: the gateway is off"},
		{[]string{"--gateway", "127.0.0.1:0", "--gateway-refuse-for", "1m", "--gateway-close-after", "0"}, "gateway-refuse-for: denials are not counted"},
		{[]string{"--gateway-connections-per-address", "-1"}, "gateway-connections-per-address: -1 is below 0"},
		{[]string{"--gateway-connections-per-address", "5"}, "gateway-connections-per-address: the gateway is off"},
	} {
		if got := command(t, nil, append([]string{"serve"}, c.args...)...); got.status != exitUsage || !strings.Contains(got.errors, c.want) {
			t.Errorf("%v: status %d, %s", c.args, got.status, got.errors)
		}
	}
}
