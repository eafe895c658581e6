package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports below those that the kernel hands to clients, so that a server that
// restarts finds its own still free. A Cluster node also listens 10,000
// above.
const (
	firstPort = 11_000
	lastPort  = 21_999
	busOffset = 10_000
)

// freePort returns a port of which a server can have both: itself and the one
// of its Cluster bus. It may be gone when the server starts.
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
