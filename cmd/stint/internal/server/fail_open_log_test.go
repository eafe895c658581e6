package server

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// The first admission of a rule is logged within a second, and later ones once a minute
// with their number.
func TestFailOpenAdmissionsAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		logs := newLogBuffer()
		f := newFailOpenLog(slog.New(slog.NewTextHandler(logs, nil)), func() string { return "connection" })
		go f.run(ctx)
		synctest.Wait()
		for _, step := range []struct {
			rule   string
			admits int
			wait   time.Duration
			want   string
		}{
			{"a", 3, time.Second, "a=3"},
			{"a", 5, 30 * time.Second, "a=3"},
			{"b", 1, time.Second, "a=3 b=1"},
			{"a", 2, 30 * time.Second, "a=3 b=1 a=7"},
			{"", 4, 3 * time.Minute, "a=3 b=1 a=7 (limits of callers)=4"},
			{"a", 1, time.Second, "a=3 b=1 a=7 (limits of callers)=4 a=1"},
		} {
			f.admitted(step.rule, step.admits)
			time.Sleep(step.wait)
			synctest.Wait()
			if got := failOpenCounts(logs.String()); got != step.want {
				t.Errorf("after %d by %q: got %s, want %s", step.admits, step.rule, got, step.want)
			}
		}
		if len(f.mu.rules) != 1 {
			t.Errorf("%d rules are held although only one has admitted lately", len(f.mu.rules))
		}
		f.admitted("a", 6)
		stop()
		synctest.Wait()
		if got := failOpenCounts(logs.String()); !strings.HasSuffix(got, " a=1 a=6") {
			t.Errorf("at the end: %s", got)
		}
	})
}

// Many rules that fail open at once share a bounded number of lines a second. No count is
// lost.
func TestFailOpenLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		logs := newLogBuffer()
		f := newFailOpenLog(slog.New(slog.NewTextHandler(logs, nil)), func() string { return "timeout" })
		go f.run(ctx)
		synctest.Wait()
		for i := range 50 {
			f.admitted(fmt.Sprint("rule", i), 1+i)
		}
		for _, want := range []int{20, 40, 50, 50} {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := strings.Count(logs.String(), "\n"); got != want {
				t.Errorf("%d lines, want %d", got, want)
			}
		}
		if first, _, _ := strings.Cut(failOpenCounts(logs.String()), " "); first != "rule49=50" {
			t.Errorf("the first line is of %s, want the greatest count", first)
		}
	})
}

// failOpenCounts returns the rule and the count of each line.
func failOpenCounts(log string) string {
	var all []string
	for _, m := range regexp.MustCompile(`fail-open admissions.* rule="?(.*?)"? count=(\d+) since=2000-01-\S+ store_error=\w+`).FindAllStringSubmatch(log, -1) {
		all = append(all, m[1]+"="+m[2])
	}
	return strings.Join(all, " ")
}

// Every surface that fails open is audited, without keys.
func TestFailOpenAdmissionsOfTheServerAreLogged(t *testing.T) {
	config := Config{Gateway: "127.0.0.1:0", Upstreams: echo(t), GRPC: "127.0.0.1:0", EnvoyConfig: t.TempDir()}
	writeFile(t, config.EnvoyConfig+"/shop.yaml", strings.Replace(envoyFile, "_unit: 3", "_unit: 3, on_store_failure: open", 1))
	s := guarded(t, config)
	if _, err := ratelimitpb.NewRateLimitServiceClient(dialGRPC(t, s)).ShouldRateLimit(patient(t), ofUser("sk_live_12345", 1)); err != nil {
		t.Error(err)
	}
	for range 2 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"sk_live_12345","path":"/open"}}`)
		s.post("http", "/v1/take", `{"key":"sk_live_12345","limit":"1/s"}`)
	}
	s.get("gateway", "/open")
	for _, path := range []string{"/closed", "/local", "/known", "/both"} {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"sk_live_12345","path":"`+path+`"}}`)
	}
	s.logs.wait(t, `rule=open count=`)
	s.logs.wait(t, `rule="(limits of callers)" count=`)
	s.logs.wait(t, `rule=shop.user count=1`)
	s.logs.wait(t, `store_error=unavailable`)
	if text := s.logs.String(); strings.Contains(text, "sk_live_12345") || strings.Contains(text, "rule=closed") || strings.Contains(text, "rule=both-") {
		t.Errorf("the log shows a key, or a rule that does not fail open:\n%s", text)
	}
}
