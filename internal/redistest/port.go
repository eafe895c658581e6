package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports are below the kernel's range for clients, so that a restarted server finds
// its port still free. A Cluster node also listens on its port plus 10,000.
const (
	firstPort = 11_000
	lastPort  = 21_999
	busOffset = 10_000
)

// freePort returns a port that is free together with the port of its Cluster bus.
// Another process may take the port before the server starts.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if canListen(t, port) && canListen(t, port+busOffset) {
			return port
		}
	}
	t.Fatalf("no free port from %d to %d", firstPort, lastPort)
	return 0
}

func canListen(t testing.TB, port int) bool {
	t.Helper()
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
