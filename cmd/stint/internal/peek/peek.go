// Package peek reads the state of a connection without consuming the bytes that have
// arrived. The gateway's client and its listener both use it. Only Unix systems support it.
package peek

// State is the state of a connection.
type State uint8

// The states.
const (
	Silent   State = iota // nothing has arrived
	Readable              // something has arrived
	Ended                 // the peer has closed the connection, or it is broken
)
