package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The request of the race, and the answer of the upstream.
const (
	gatewayPath   = "/v1/orders"
	gatewayAnswer = "ok\n"
)

// Rules that never deny here.
const gatewayRules = `rules:
  - {id: race, by: [ip], limit: 1, window: 1m, burst: 50000000}
`

// nginxFrame runs nginx as one process that keeps connections, without a log of requests.
const nginxFrame = `daemon off;
master_process off;
worker_processes 1;
pid NAME.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_body_temp_path NAME-body;
  proxy_temp_path NAME-proxy;
  fastcgi_temp_path NAME-fastcgi;
  uwsgi_temp_path NAME-uwsgi;
  scgi_temp_path NAME-scgi;
`

const nginxUpstream = nginxFrame + `  server {
    listen ADDR backlog=1024;
    default_type text/plain;
    location / { return 200 "ok\n"; }
  }
}
`

const nginxGateway = nginxFrame + `  limit_req_zone $binary_remote_addr zone=clients:10m rate=1000000r/s;
  upstream application {
    server UPSTREAM;
    keepalive 128;
    keepalive_requests 1000000000;
  }
  server {
    listen ADDR backlog=1024;
    location / {
      limit_req zone=clients burst=1000000 nodelay;
      proxy_pass http://application;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`

const haproxyGateway = `global
  nbthread 1
defaults
  mode http
  timeout connect 10s
  timeout client 1h
  timeout server 1h
frontend clients
  bind ADDR
  stick-table type ip size 1m expire 1m store http_req_rate(1m)
  http-request track-sc0 src
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000000 }
  default_backend application
backend application
  http-reuse always
  server application UPSTREAM
`

const caddyGateway = `{
	admin off
	auto_https off
	log {
		level ERROR
	}
}
http://ADDR {
	reverse_proxy UPSTREAM {
		transport http {
			keepalive_idle_conns_per_host 128
		}
	}
}
`

// rivalGateway is a server with its configuration, in which NAME, ADDR and UPSTREAM are
// replaced. FILE in its arguments is the file with the configuration.
type rivalGateway struct {
	name, program, config string
	args                  []string
}

// start starts the upstream on the client's CPU, and all gateways on the server's: one
// runs at a time.
func (g *gatewayRace) start(ctx context.Context) error {
	nginx := []string{"-e", "stderr", "-p", g.dir, "-c", "FILE"}
	upstream, err := g.add(ctx, g.pins.client, "", rivalGateway{upstreamName, "nginx", nginxUpstream, nginx})
	if err != nil {
		return err
	}
	for _, rival := range []rivalGateway{
		{nginxName, "nginx", nginxGateway, nginx},
		{haproxyName, "haproxy", haproxyGateway, []string{"-f", "FILE"}},
		{caddyName, "caddy", caddyGateway, []string{"run", "--adapter", "caddyfile", "--config", "FILE"}},
	} {
		if _, err := g.add(ctx, g.pins.server, upstream, rival); err != nil {
			return err
		}
	}
	ours, err := startStintOn(ctx, g.pins.server, g.o.stint, gatewayRules, "--gateway", "127.0.0.1:0", "--upstream", "http://"+upstream)
	if err != nil {
		return err
	}
	g.closing(ours.stop)
	g.at = append(g.at, gatewayServer{stintGatewayName, ours.addrs["gateway"], ours.pid()})
	return nil
}

// add starts a server and returns its address.
func (g *gatewayRace) add(ctx context.Context, cpu, upstream string, of rivalGateway) (addr string, err error) {
	port, err := freePort(ctx)
	if err != nil {
		return "", err
	}
	addr = net.JoinHostPort("127.0.0.1", port)
	file := filepath.Join(g.dir, port)
	text := strings.NewReplacer("NAME", port, "ADDR", addr, "UPSTREAM", upstream).Replace(of.config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	args := strings.Split(strings.ReplaceAll(strings.Join(of.args, "\n"), "FILE", file), "\n")
	s := &serverProcess{command: command(ctx, cpu, findSystem(of.program), args...)}
	s.command.Env = append(os.Environ(), "HOME="+g.dir, "XDG_DATA_HOME="+g.dir, "XDG_CONFIG_HOME="+g.dir)
	if err := s.startAt(ctx, addr); err != nil {
		return "", fmt.Errorf("%s: %w", of.name, err)
	}
	g.closing(s.stop)
	g.at = append(g.at, gatewayServer{of.name, addr, s.pid()})
	return addr, nil
}

// startAt waits until the server accepts connections.
func (s *serverProcess) startAt(ctx context.Context, addr string) error {
	var log bytes.Buffer
	s.command.Stderr = &log
	runtime.LockOSThread() // see startRedis
	diesWithUs(s.command)
	if err := s.command.Start(); err != nil {
		return err
	}
	var err error
	for end := time.Now().Add(respPatience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		var conn net.Conn
		if conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr); err == nil {
			return conn.Close()
		}
	}
	err = errors.Join(err, s.stop())
	return fmt.Errorf("%w: %s", err, bytes.TrimSpace(log.Bytes()))
}

// findSystem returns the path of a program of the system, or "". The path of an ordinary
// user lacks the folders of servers on some systems.
func findSystem(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, folder := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path
		}
	}
	return ""
}
