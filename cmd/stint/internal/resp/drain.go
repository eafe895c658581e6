package resp

import (
	"context"
	"time"
)

// drainTime is how long the server reads on for commands that are already on their
// way.
const drainTime = 100 * time.Millisecond

// Drain stops accepting connections, answers the commands that clients have sent, and
// closes each connection when it is silent, at the latest after 100 ms plus the
// current call of the store. If ctx ends first, Drain returns its error.
func (s *Server) Drain(ctx context.Context) error {
	until := time.Now().Add(drainTime)
	s.drainEnd.Store(&until)
	s.close()
	for _, c := range s.all() {
		_ = c.net.SetReadDeadline(until)
	}
	done := make(chan struct{})
	go func() { s.serving.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop closes all connections at once.
func (s *Server) Stop() {
	s.close()
	s.cut()
	for _, c := range s.all() {
		_ = c.net.Close()
	}
	s.serving.Wait()
}

// close stops accepting connections.
func (s *Server) close() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.listener != nil {
		_ = s.mu.listener.Close()
	}
}

func (s *Server) all() (conns []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.mu.conns {
		conns = append(conns, c)
	}
	return conns
}
