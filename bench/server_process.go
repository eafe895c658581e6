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

// serverProcess is a server in a process that this program started.
type serverProcess struct {
	command *exec.Cmd
	dir     string            // the folder of its files; empty: none
	addrs   map[string]string // addresses by the names of the listeners
	ready   string            // log text that shows that it is ready; empty: msg=ready
}

// listening matches the log line with the address of a listener.
var listening = regexp.MustCompile(`listening.* name=(\S+) addr=(\S+)`)

// startHere starts this program again as a server that -here names.
func startHere(ctx context.Context, work string) (*serverProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &serverProcess{command: exec.CommandContext(ctx, self, "-here", work)}
	return s, s.start()
}

// The limits in the files of the server are never reached; Envoy's is as large, for each
// hour.
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

// startStint starts the program as its users do, with additional flags.
func startStint(ctx context.Context, program string, more ...string) (*serverProcess, error) {
	return startStintOn(ctx, "", program, benchRules, more...)
}

// startStintOn starts the program with a rule file on one CPU, or on any if cpu is empty.
func startStintOn(ctx context.Context, cpu, program, ruleFile string, more ...string) (*serverProcess, error) {
	s, err := prepareStint(ctx, cpu, program, ruleFile, more...)
	if err != nil {
		return nil, err
	}
	return s, s.start()
}

// prepareStint prepares the files and the command of startStintOn.
func prepareStint(ctx context.Context, cpu, program, ruleFile string, more ...string) (*serverProcess, error) {
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return nil, err
	}
	rules, envoy := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "envoy")
	err = errors.Join(os.WriteFile(rules, []byte(ruleFile), 0o600), os.Mkdir(envoy, 0o700),
		os.WriteFile(filepath.Join(envoy, "bench.yaml"), []byte(benchEnvoy), 0o600))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	const free = "127.0.0.1:0"
	args := append([]string{"serve", "--rules", rules, "--envoy-config", envoy,
		"--http", free, "--grpc", free, "--resp", free, "--admin", free, "--pprof"}, more...)
	return &serverProcess{dir: dir, command: command(ctx, cpu, program, args...)}, nil
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
		return errors.Join(err, os.RemoveAll(s.dir)) //nolint:gosec // a folder that this program made
	}
	if err := s.listen(bufio.NewScanner(log)); err != nil {
		return errors.Join(err, s.stop())
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // drains the log until the process ends
	return nil
}

// listen reads the addresses of the listeners from the log, until the server is ready.
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

// lacksStint reports whether the program to start is missing, and says that the part is
// skipped.
func (o options) lacksStint(out io.Writer, part string) bool {
	_, err := os.Stat(o.stint)
	if err != nil {
		fmt.Fprintf(out, "%s: skipped, there is no %s (make build)\n", part, o.stint)
	}
	return err != nil
}

func (s *serverProcess) pid() int { return s.command.Process.Pid }

func (s *serverProcess) stop() error {
	err := s.command.Process.Kill()
	_ = s.command.Wait() // the error reports the kill
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir)) //nolint:gosec // a folder that this program made
	}
	return err
}
