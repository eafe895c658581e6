package remotetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
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
