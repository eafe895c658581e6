package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// serverProcess is a server of our own in a process of its own.
type serverProcess struct {
	command *exec.Cmd
	dir     string            // of its files; empty: none
	addrs   map[string]string // by the names of its listeners
	ready   string            // stands in its log once it is; empty: msg=ready
}

// listening is how a server says where it listens.
var listening = regexp.MustCompile(`listening.* name=(\S+) addr=(\S+)`)

// startHere starts this program once more, as a server that -here names.
func startHere(ctx context.Context, work string) (*serverProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &serverProcess{command: exec.CommandContext(ctx, self, "-here", work)}
	return s, s.start()
}

// The files of the server allow what everyone is ample with, and Envoy's as
// much in an hour.
const (
	benchRules = `rules:
  - {id: race, by: [api_key], limit: 1, window: 1m, burst: 50000000}
`
	benchEnvoy = `domain: bench
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 50000000}
`
)

// startStint starts the program as its users do, with more flags.
func startStint(ctx context.Context, program string, more ...string) (*serverProcess, error) {
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return nil, err
	}
	rules, envoy := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "envoy")
	err = errors.Join(os.WriteFile(rules, []byte(benchRules), 0o600), os.Mkdir(envoy, 0o700),
		os.WriteFile(filepath.Join(envoy, "bench.yaml"), []byte(benchEnvoy), 0o600))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	const free = "127.0.0.1:0"
	args := append([]string{"serve", "--rules", rules, "--envoy-config", envoy,
		"--http", free, "--grpc", free, "--resp", free, "--admin", free, "--pprof"}, more...)
	s := &serverProcess{dir: dir, command: exec.CommandContext(ctx, program, args...)} //nolint:gosec // the program is ours, or named by the operator
	return s, s.start()
}

// start waits until the server is ready.
func (s *serverProcess) start() error {
	log, err := s.command.StderrPipe()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // see startRedis
	diesWithUs(s.command)
	if err := s.command.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	if err := s.listen(bufio.NewScanner(log)); err != nil {
		return errors.Join(err, s.stop())
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // until it ends
	return nil
}

// listen reads where it listens.
func (s *serverProcess) listen(log *bufio.Scanner) error {
	s.addrs = map[string]string{}
	var said strings.Builder
	for log.Scan() {
		said.WriteString(log.Text() + "\n")
		if found := listening.FindStringSubmatch(log.Text()); found != nil {
			s.addrs[found[1]] = found[2]
		}
		if strings.Contains(log.Text(), cmp.Or(s.ready, "msg=ready")) {
			return nil
		}
	}
	return fmt.Errorf("%s ended before it was ready:\n%s", s.command.Path, said.String())
}

func (s *serverProcess) pid() int { return s.command.Process.Pid }

func (s *serverProcess) stop() error {
	err := s.command.Process.Kill()
	_ = s.command.Wait() // tells that we killed it
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}
