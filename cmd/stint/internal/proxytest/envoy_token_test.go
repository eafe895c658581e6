//go:build linux

package proxytest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	noMetadata   = `# initial_metadata: [{key: authorization, value: "Bearer TOKEN"}]`
	someMetadata = `initial_metadata: [{key: authorization, value: "Bearer s3cret"}]`
)

// TestEnvoySendsTheToken uses a Stint that requires a token, and the files of
// deploy/envoy both unchanged and changed to send the token as their comments say.
func TestEnvoySendsTheToken(t *testing.T) {
	t.Parallel()
	token := filepath.Join(folder(t), "token")
	write(t, token, "s3cret\n")
	for _, sends := range []bool{true, false} {
		var replace []string
		if sends {
			replace = []string{noMetadata, someMetadata}
		}
		t.Run(fmt.Sprintf("ratelimit.yaml/%v", sends), func(t *testing.T) {
			t.Parallel()
			wantCounted(t, newRateLimitSite(t, rateLimitFile, patient, replace, "--http-token-file", token), sends, 4)
		})
		t.Run(fmt.Sprintf("ext-authz-grpc.yaml/%v", sends), func(t *testing.T) {
			t.Parallel()
			p := *proxyNamed(t, "envoy-grpc")
			p.own = append(slices.Clone(p.own), replace...)
			wantCounted(t, newSite(t, &p, patient, "--http-token-file", token), sends, 2)
		})
	}
}

// wantCounted sends one request more than the limit allows. Without the token each
// check fails, and the files then let requests pass.
func wantCounted(t *testing.T, s *site, counted bool, limit int) {
	t.Helper()
	c := s.client(t)
	for i := range limit + 1 {
		got := c.get("/ip")
		want := http.StatusOK
		if counted && i == limit {
			want = http.StatusTooManyRequests
		}
		if hasLimit := strings.HasPrefix(got.header.Get("X-RateLimit-Limit"), fmt.Sprint(limit)); got.status != want || hasLimit != counted {
			t.Errorf("%d: want %d, counted %v; got %s", i, want, counted, &got)
		}
	}
}

// TestNoRequestEscapesEnvoysRateLimit is TestNoRequestEscapesItsLimit for Envoy's rate
// limit filter: no content of a header that is a descriptor may make the check fail.
func TestNoRequestEscapesEnvoysRateLimit(t *testing.T) {
	t.Parallel()
	s := newRateLimitSite(t, rateLimitFile, patient, nil)
	c := s.exhausted(t)
	requests := hostileRequests()
	for b := range 256 {
		if b != '\n' {
			requests = append(requests, headerLine(fmt.Sprintf("byte %#02x in a descriptor", b), "X-User: a"+string([]byte{byte(b)})))
		}
	}
	for _, length := range []int{1000, 10_000, 50_000} {
		requests = append(requests, headerLine(fmt.Sprintf("a descriptor of %d bytes", length), "X-User: "+strings.Repeat("x", length)))
	}
	denied := s.wantNonePasses(t, requests, func(r hostileRequest) int { return c.status(r.text) })
	if denied < len(requests)/3 {
		t.Errorf("Stint decided %d of %d", denied, len(requests))
	}
}
