package redistest

import (
	"crypto/tls"
	"testing"
)

func TestServerSpeaksTLSAlone(t *testing.T) {
	p, config := ServerTLS(t)
	if got := p.Must("PING"); got != "PONG" {
		t.Errorf("PING: %q", got)
	}
	dial(t, p.Addr()).answersNothing("PING")
	if conn, err := tls.Dial("tcp", p.Addr(), &tls.Config{MinVersion: config.MinVersion}); err == nil {
		_ = conn.Close()
		t.Error("a client that trusts the system's authorities alone trusts the server")
	}
}
