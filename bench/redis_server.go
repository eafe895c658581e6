package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stintdev/stint/internal/testserver"
)

// redisServer is a server that this program started, empty and without persistence, on a
// free port of the loopback interface.
type redisServer struct {
	port    string
	process *exec.Cmd
	dir     string
	admin   *redis.Client
}

// findProgram returns the path of the first of names that is installed, or "".
func findProgram(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// redisServers names the Redis servers of .cache/servers.
var redisServers = []string{"redis-6.2", "valkey"}

// pinnedRedis returns the program of a server of .cache/servers.
func pinnedRedis(name string) (path string, err error) {
	if !slices.Contains(redisServers, name) {
		return "", fmt.Errorf("%q is unknown: use %s", name, strings.Join(redisServers, " or "))
	}
	if path, err = testserver.Find(name); err == nil && path == "" {
		err = fmt.Errorf("%s is not in .cache/servers: run scripts/install-wheels", name)
	}
	return path, err
}

// findRedis returns the path of the Redis server program that the benchmarks start. It
// returns "" if PATH has no such program.
func (o options) findRedis() string {
	if o.redis != "" {
		return o.redis
	}
	return findProgram("redis-server", "valkey-server")
}

// lacksRedis reports whether no server is installed, and says that the part is skipped.
func (o options) lacksRedis(out io.Writer, part string) bool {
	lacks := o.findRedis() == ""
	if lacks {
		fmt.Fprintf(out, "\n%s: skipped, no redis-server or valkey-server is installed (apt-get install redis-server)\n", part)
	}
	return lacks
}

// startVersionedRedis is startRedis, and also returns the name and version of the server.
func startVersionedRedis(ctx context.Context, program, cpu string) (s *redisServer, version string, err error) {
	if s, err = startRedis(ctx, program, cpu); err != nil {
		return nil, "", err
	}
	if version, err = s.version(ctx); err != nil {
		return nil, "", errors.Join(err, s.stop())
	}
	return s, version, nil
}

// startRedis starts a server on one CPU, or on any if cpu is empty, and waits until it
// answers. The caller stops it.
func startRedis(ctx context.Context, program, cpu string) (*redisServer, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return nil, err
	}
	s := &redisServer{port: port, dir: dir}
	s.process = command(ctx, cpu, program, "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning")
	// A server dies with the thread that started it, see diesWithUs: this one
	// must stay.
	runtime.LockOSThread()
	diesWithUs(s.process)
	if err := s.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.admin = redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: 50, MaxRetryBackoff: 100 * time.Millisecond})
	if err := s.admin.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s on port %s: %w", s.process.Path, port, err), s.stop())
	}
	return s, nil
}

// freePort returns a free port of the loopback interface.
func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func (s *redisServer) addr() string { return net.JoinHostPort("127.0.0.1", s.port) }

func (s *redisServer) stop() error {
	err := errors.Join(s.admin.Close(), s.process.Process.Kill())
	_ = s.process.Wait()                         // the error reports the kill
	return errors.Join(err, os.RemoveAll(s.dir)) //nolint:gosec // a folder that startRedis made
}

// info returns one field of the server's INFO.
func (s *redisServer) info(ctx context.Context, section, field string) (string, error) {
	text, err := s.admin.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(text, "\n"+field+":")
	if !found {
		return "", fmt.Errorf("the server reports no %s", field)
	}
	value, _, _ := strings.Cut(rest, "\r")
	return value, nil
}

// usedMemory returns the memory that the server has allocated, in bytes.
func (s *redisServer) usedMemory(ctx context.Context) (int64, error) {
	text, err := s.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// version returns the name and the version of the server.
func (s *redisServer) version(ctx context.Context) (string, error) {
	if v, err := s.info(ctx, "server", "valkey_version"); err == nil {
		return "Valkey " + v, nil
	}
	v, err := s.info(ctx, "server", "redis_version")
	return "Redis " + v, err
}

// benchmarkLine matches the result of redis-benchmark --csv.
var benchmarkLine = regexp.MustCompile(`(?m)^"[^"]*","([0-9.]+)"`)

// ceiling returns how many calls of the plain script per second the server handles from
// its own benchmark program, 64 in a pipeline, over a number of keys. It is 0 without
// that program.
func (s *redisServer) ceiling(ctx context.Context, cpu string, keys, calls int) (float64, error) {
	program := findProgram("redis-benchmark", "valkey-benchmark")
	if program == "" {
		return 0, nil
	}
	sha, err := s.admin.ScriptLoad(ctx, plainScript).Result()
	if err != nil {
		return 0, err
	}
	args := append([]string{"-p", s.port, "-P", "64", "-n", strconv.Itoa(calls), "-r", strconv.Itoa(keys), "--csv",
		"EVALSHA", sha, "1", "user:__rand_int__"}, plainArgs(ample())...)
	out, err := command(ctx, cpu, program, args...).Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	found := benchmarkLine.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("redis-benchmark printed no result: %q", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
