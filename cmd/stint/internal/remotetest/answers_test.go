package remotetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/server"
	"github.com/stintdev/stint/remotestore"
)

// Any program may answer at the address. Its message becomes one line of an error.
func TestErrorsOfOtherServersAreOneLine(t *testing.T) {
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(web.Close)
	_, err := open(t, remotestore.Options{Addr: web.Listener.Addr().String(), Timeout: patience}).Take(t.Context(), stint.Claim{Key: "k", Limit: mustLimit(t, "5/h"), Cost: 1})
	wantError(t, "a web server", err, stint.CodeUnavailable, "point at the --grpc listener")
	g := newGate(t)
	g.answer <- status.Error(codes.Internal, strings.Repeat("x", 5000)+"\nlevel=ERROR")
	_, err2 := open(t, remotestore.Options{Addr: g.addr, Timeout: patience}).Take(t.Context(), stint.Claim{Key: "k", Limit: mustLimit(t, "5/h"), Cost: 1})
	for _, text := range []string{fmt.Sprint(err), fmt.Sprint(err2)} {
		if strings.Contains(text, "\n") || len(text) > 500 {
			t.Errorf("%d bytes: %.600q", len(text), text)
		}
	}
}

// fixedAnswers is a store that gives the same decisions to every call.
type fixedAnswers struct {
	stint.Store

	decisions []stint.Decision
}

func (f fixedAnswers) TakeGroups(_ context.Context, _ []stint.Group, out []stint.Decision) error {
	copy(out, f.decisions)
	return nil
}

// Every field of a decision comes back from the server.
func TestDecisionsComeBackAsTheyWereMade(t *testing.T) {
	made := []stint.Decision{
		{Allowed: true, Limit: 1, Remaining: 2, ResetAfter: 3 * time.Microsecond, NextAfter: 4 * time.Microsecond, Delay: 5 * time.Microsecond, Granted: 6, At: 7},
		{Degraded: true, Unavailable: true, Limit: 8, RetryAfter: 9 * time.Microsecond, At: 10},
		{Degraded: true, RetryAfter: stint.Never, Limit: 11, At: 12},
	}
	store := open(t, remotestore.Options{Addr: serve(t, server.Config{Store: fixedAnswers{stint.NewMemory(stint.MemoryOptions{}), made}}), Timeout: patience})
	limit := mustLimit(t, "5/h")
	groups := []stint.Group{{Claims: []stint.Claim{{Key: "a", Limit: limit}, {Key: "b", Limit: limit}}}, {Claims: []stint.Claim{{Key: "c", Limit: limit}}}}
	out := make([]stint.Decision, len(made))
	if err := store.TakeGroups(t.Context(), groups, out); err != nil || !slices.Equal(out, made) {
		t.Errorf("%+v, %v; want %+v", out, err, made)
	}
}
