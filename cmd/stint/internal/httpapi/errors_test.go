package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Envoy's service logs its failures itself.
func TestFailuresOfEnvoysServiceAreNotLoggedTwice(t *testing.T) {
	for err, want := range map[error]bool{fromStatus(status.Error(codes.Unavailable, "the store fails")): false, errors.New("other"): true} {
		var logs strings.Builder
		r := httptest.NewRequest(http.MethodPost, "/json", http.NoBody)
		ErrorWriter{slog.New(slog.NewTextHandler(&logs, nil))}.Log(r, err)
		if got := strings.Contains(logs.String(), "no decision"); got != want {
			t.Errorf("%v: logged is %v", err, got)
		}
	}
}
