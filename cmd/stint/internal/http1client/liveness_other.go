//go:build !unix

package http1client

import "net"

const haveLiveness = false

type liveness struct{}

func newLiveness(net.Conn) liveness { return liveness{} }

func (*liveness) silent() bool { return false }
