// Command demo shows Stint at work. It starts a small application and, in front of
// it, stint serve with the gateway and the rules of rules.yaml, and prints commands
// to try:
//
//	make run
//
// It leaves nothing running: Ctrl-C, a SIGTERM, the end of the server, and the end
// of the parent process each stop both the server and the application.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stintdev/stint/examples/demo/upstream"
)

const (
	eventInterval = time.Second
	stopTimeout   = 12 * time.Second // the server itself needs at most 10
	parentCheck   = 500 * time.Millisecond
)

type options struct {
	stint, rules, http, gateway string
}

func main() {
	var o options
	flag.StringVar(&o.stint, "stint", "./bin/stint", "the stint program to run")
	flag.StringVar(&o.rules, "rules", "examples/demo/rules.yaml", "the rule file")
	flag.StringVar(&o.http, "http", env("STINT_HTTP", ":8080"), "address of the check API")
	flag.StringVar(&o.gateway, "gateway", env("STINT_GATEWAY", ":8000"), "address of the gateway")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func env(name, byDefault string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return byDefault
}

// run serves until a signal, or until the server or the parent process ends.
func run(o *options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go watchParent(ctx, cancel)

	application, target, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = application.Close() }() // after the server, which drains requests to it
	err = serve(ctx, o, target)
	if ctx.Err() != nil {
		return nil // stopped as requested
	}
	return err
}

// startUpstream serves the application on a port of its own.
func startUpstream(ctx context.Context) (s *http.Server, target string, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	s = &http.Server{Handler: upstream.Handler(eventInterval), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // until it is closed
	return s, "http://" + l.Addr().String(), nil
}

// serve runs stint serve until ctx ends. It then sends SIGTERM, and after
// stopTimeout SIGKILL.
func serve(ctx context.Context, o *options, target string) error {
	c := exec.CommandContext(ctx, o.stint, "serve", "--rules", o.rules, "--http", o.http,
		"--gateway", o.gateway, "--upstream", target, "--log-format", "text")
	c.Stdout = os.Stdout
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = stopTimeout
	ownGroup(c)
	logs, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return startError(o.stint, err)
	}
	relay(os.Stderr, logs, func() { fmt.Print(invitation(port(o.gateway), port(o.http))) })
	return c.Wait()
}

func startError(program string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist (build it: go build -o bin/stint ./cmd/stint)", program)
	}
	return err
}

// relay copies log lines, and calls ready after the line that reports readiness.
func relay(w io.Writer, logs io.Reader, ready func()) {
	lines := bufio.NewReader(logs)
	for {
		line, err := lines.ReadString('\n')
		_, _ = fmt.Fprint(w, line)
		if strings.Contains(line, "msg=ready") {
			ready()
		}
		if err != nil {
			return
		}
	}
}

// watchParent stops the demo when its parent process has ended. No signal reports
// that, so it polls.
func watchParent(ctx context.Context, stop func()) {
	parent := os.Getppid()
	ticks := time.NewTicker(parentCheck)
	defer ticks.Stop()
	for os.Getppid() == parent {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
	stop()
}

func port(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return port
}

func invitation(gateway, api string) string {
	return fmt.Sprintf(`
Stint guards a small application: five requests in any ten seconds.

  Send six, and see the sixth denied:
    for i in 1 2 3 4 5 6; do curl -i http://localhost:%[1]s/; done

  Each key has a count of its own, and this key has a higher limit:
    curl -i -H 'X-API-Key: vip' http://localhost:%[1]s/

  Streams pass through:
    curl -N 'http://localhost:%[1]s/events?n=3'

  Ask the server directly, without the gateway:
    curl http://localhost:%[2]s/v1/check -d '{"attributes":{"api_key":"alice","path":"/"}}'

Change examples/demo/rules.yaml while it runs. Ctrl-C stops everything.

`, gateway, api)
}
