package resp

import (
	"context"
	"time"
)

// drainTime is how long commands that are on their way are still answered.
const drainTime = 100 * time.Millisecond

// Drain stops accepting, answers what has been sent and closes each connection
// once it is silent, at the latest after a tenth of a second and the call of
// the store in hand. The error is that of ctx, when it ends first.
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

// Stop closes everything at once.
func (s *Server) Stop() {
	s.close()
	s.cut()
	for _, c := range s.all() {
		_ = c.net.Close()
	}
	s.serving.Wait()
}

// close stops accepting.
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
