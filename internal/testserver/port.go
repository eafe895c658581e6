package testserver

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// The ports are below the kernel's range for clients, so that no connection of another
// process takes one before its server listens, or while it restarts. Package redistest
// uses those from 11,000 on.
const (
	firstPort = 6_500
	manyPorts = 4_500
)

// nextPort starts at random, because other test programs run at the same time.
var nextPort = func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(manyPorts))
	return &n
}()

// T is the part of [testing.TB] that FreePort uses.
type T interface {
	Helper()
	Fatal(args ...any)
}

// FreeAddr returns an address of FreePort for TCP.
func FreeAddr(t T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t, "tcp")))
}

// FreePort returns a port of the loopback interface that nothing listens on, for the
// network "tcp" or "udp". The next calls in this process return others.
func FreePort(t T, network string) int {
	t.Helper()
	local := net.IPv4(127, 0, 0, 1)
	for range 1000 {
		port := firstPort + int(nextPort.Add(1)%manyPorts)
		switch network {
		case "tcp":
			if l, err := net.ListenTCP(network, &net.TCPAddr{IP: local, Port: port}); err == nil {
				_ = l.Close()
				return port
			}
		case "udp":
			if c, err := net.ListenUDP(network, &net.UDPAddr{IP: local, Port: port}); err == nil {
				_ = c.Close()
				return port
			}
		default:
			t.Fatal(net.UnknownNetworkError(network))
		}
	}
	t.Fatal("no free port from", firstPort, "on")
	return 0
}
