package remotestore

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// Any program may answer at the address. Its message becomes one line of an error.
func TestOtherServersAreToldInOneLine(t *testing.T) {
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(web.Close)
	_, err := open(t, Options{Addr: web.Listener.Addr().String(), Timeout: patience}).Take(t.Context(), stint.Claim{Key: "k", Limit: mustLimit(t, "5/h"), Cost: 1})
	wantError(t, "a web server", err, stint.CodeUnavailable, "point at the --grpc listener")
	g := newGate(t)
	g.answer <- status.Error(codes.Internal, strings.Repeat("x", 5000)+"\nlevel=ERROR")
	_, err2 := open(t, Options{Addr: g.addr, Timeout: patience}).Take(t.Context(), stint.Claim{Key: "k", Limit: mustLimit(t, "5/h"), Cost: 1})
	for _, text := range []string{fmt.Sprint(err), fmt.Sprint(err2)} {
		if strings.Contains(text, "\n") || len(text) > 500 {
			t.Errorf("%d bytes: %.600q", len(text), text)
		}
	}
}

// A response that does not match the request is an error, not a decision.
func TestGarbledAnswersAreErrors(t *testing.T) {
	s := remote(t, nil)
	limit := mustLimit(t, "5/h")
	for says, m := range map[string]*stintv1.TakeBatchResponse{
		"it decides nothing":                {},
		"a column does not fit":             {Decisions: &stintv1.Decisions{Limit: []int64{5}, Allowed: []bool{true, true}}},
		"more groups than were asked for":   {Decisions: &stintv1.Decisions{Limit: []int64{5}}, Failures: []*stintv1.Failure{{Index: 3}}},
		"its failures are out of order":     {Decisions: &stintv1.Decisions{Limit: []int64{5}}, Failures: []*stintv1.Failure{{Index: 2}, {Index: 0}}},
		"more groups than were asked for: ": {Failures: []*stintv1.Failure{{Index: 1 << 31}}},
	} {
		f := newInFlight(s)
		for range 3 {
			c := s.borrow()
			c.addOne(stint.Claim{Key: "k", Limit: limit, Cost: 1})
			f.calls = append(f.calls, c)
			f.columns.add(c)
		}
		wantError(t, says, f.assign(m), stint.CodeInternal, strings.TrimSuffix(says, ": "))
	}
}
