package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/penalty"
)

func TestOnePenaltyASecondIsLogged(t *testing.T) {
	logs := newLogBuffer()
	l := &penaltyObserver{log: slog.New(slog.NewTextHandler(logs, nil))}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, key := range []string{"sk_live_123456789", "sk_live_2", "sk_live_3", "\x01203.0.113.9"} {
		p := &penalty.Punishment{Rule: "api", Key: key, For: time.Hour, Kind: stint.CoolDown}
		if i > 0 {
			p.Kind = stint.Ban
		}
		l.logBegan(p, now.Add(time.Duration(i)*400*time.Millisecond))
	}
	text := logs.String()
	for _, want := range []string{
		`msg="penalty begins" rule=api caller=sk_li… kind=cool_down for=1h0m0s suppressed=0`,
		`rule=api caller=203… kind=ban for=1h0m0s suppressed=2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, text)
	}
}

func TestPenaltiesAreLogged(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, punishing)})
	for range 21 {
		s.post("http", "/v1/check", `{"attributes":{"api_key":"sk_live_12345","path":"/"}}`)
	}
	s.logs.wait(t, `msg="penalty begins" rule=api caller=sk_l… kind=cool_down for=1h0m0s`)
	if strings.Contains(s.logs.String(), "sk_live_12345") {
		t.Error("the log shows the key")
	}
}
