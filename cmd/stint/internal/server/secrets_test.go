package server

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// awaitTrue waits until a change of a watched file takes effect.
func awaitTrue(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !happened(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("still not so: " + what)
		}
	}
}

// TestTokensAreReadAgainWhenTheirFilesChange tries every surface that requires a token. No
// signal is sent.
func TestTokensAreReadAgainWhenTheirFilesChange(t *testing.T) {
	folder := t.TempDir()
	token, admin := filepath.Join(folder, "token"), filepath.Join(folder, "admin")
	writeFile(t, token, "first")
	writeFile(t, admin, "adm1n")
	config := withFile(t)
	config.HTTPTokenFile, config.AdminTokenFile, config.RESP = token, admin, "127.0.0.1:0"
	s := run(t, config)
	surfaces := map[string]func(token string) bool{
		"resp": func(token string) bool {
			return askRESP(t, dial(t, s.Addr("resp")), "AUTH "+token, 1)[0] == "+OK"
		},
	}
	for path, body := range charging {
		surfaces[path] = func(token string) bool {
			return s.do(http.MethodPost, "http", path, body, []string{"Authorization", "Bearer " + token}).status != http.StatusUnauthorized
		}
	}
	for name, call := range calls(t, s) {
		surfaces[name] = func(token string) bool {
			ctx := metadata.AppendToOutgoingContext(patient(t), "authorization", "Bearer "+token)
			return status.Code(call(ctx)) != codes.Unauthenticated
		}
	}
	want := func(when, good, bad string) {
		t.Helper()
		for name, admits := range surfaces {
			if !admits(good) || admits(bad) {
				t.Errorf("%s: %s admits %s: %v, %s: %v", when, name, good, admits(good), bad, admits(bad))
			}
		}
	}
	want("at first", "first", "second")
	writeFile(t, token, "second\n")
	awaitTrue(t, "the second token counts", func() bool { return surfaces["/v1/take"]("second") })
	want("after a change", "second", "first")
	writeFile(t, token, "")
	s.logs.wait(t, "secret file rejected")
	want("after a mistake", "second", "first")

	metrics := func(token string) int { return s.get("admin", "/metrics", "Authorization", "Bearer "+token).status }
	if metrics("adm1n") != http.StatusOK {
		t.Error("the admin token is not the first one")
	}
	writeFile(t, admin, "adm2n")
	awaitTrue(t, "the second admin token counts", func() bool { return metrics("adm2n") == http.StatusOK })
	if metrics("adm1n") != http.StatusUnauthorized {
		t.Error("the first admin token still counts")
	}
	if log := s.logs.String(); strings.Contains(log, "adm2n") || strings.Contains(log, "second") {
		t.Error("the log shows a token")
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestCertificatesAreReadAgainWhenTheirFilesChange: so are the certificate authorities of
// clients. Open connections stay open.
func TestCertificatesAreReadAgainWhenTheirFilesChange(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	files, friend, stranger := ours.files(), ours.files(), others.files()
	ours.issue(1, files)
	ours.issue(7, friend)
	others.issue(8, stranger)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, ca, readFile(t, ours.file))
	files.ClientCA = ca
	s := run(t, Config{TLS: files})
	serial := func(client TLSFiles) int64 {
		state, err := shake(s.Addr("http"), ours.client(client))
		if err != nil {
			return 0
		}
		return state.PeerCertificates[0].SerialNumber.Int64()
	}
	if serial(friend) != 1 || serial(stranger) != 0 {
		t.Fatalf("at first: %d, %d", serial(friend), serial(stranger))
	}
	ours.issue(2, files)
	awaitTrue(t, "the second certificate is shown", func() bool { return serial(friend) == 2 })
	writeFile(t, ca, readFile(t, ours.file)+readFile(t, others.file))
	awaitTrue(t, "the second authority is trusted", func() bool { return serial(stranger) == 2 })
	writeFile(t, files.Key, "no key")
	s.logs.wait(t, "secret file rejected")
	if serial(friend) != 2 {
		t.Errorf("after a mistake: %d", serial(friend))
	}
}

// TestAListOfTokensThatIsEmptiedStaysInForce: an editor that empties the file before it writes
// locks nobody out. A file with only a comment removes all tokens.
func TestAListOfTokensThatIsEmptiedStaysInForce(t *testing.T) {
	list := filepath.Join(t.TempDir(), "tokens")
	sum := sha256.Sum256([]byte("v1ewer"))
	writeFile(t, list, "vera viewer "+hex.EncodeToString(sum[:])+"\n")
	s := run(t, Config{AdminTokens: list})
	status := func() int { return s.get("admin", "/metrics", "Authorization", "Bearer v1ewer").status }
	writeFile(t, list, " \n")
	s.logs.wait(t, "secret file rejected")
	if got := status(); got != http.StatusOK {
		t.Errorf("an empty list is in force: status %d", got)
	}
	writeFile(t, list, "# Nobody.\n")
	awaitTrue(t, "nobody may", func() bool { return status() == http.StatusUnauthorized })
}

// TestARemovedAuthorityEndsItsSessions: a client that resumes a session shows no certificate
// again.
func TestARemovedAuthorityEndsItsSessions(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	files, friend := ours.files(), ours.files()
	ours.issue(1, files)
	ours.issue(7, friend)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, ca, readFile(t, ours.file))
	files.ClientCA = ca
	s := run(t, Config{TLS: files})
	config := ours.client(friend)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	ask := func() (resumed bool, err error) {
		transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Addr("http").String()+"/healthz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			return false, err
		}
		return response.TLS.DidResume, response.Body.Close()
	}
	if _, err := ask(); err != nil {
		t.Fatal(err)
	}
	if resumed, err := ask(); !resumed || err != nil {
		t.Fatalf("resumed: %v, %v", resumed, err)
	}
	writeFile(t, ca, readFile(t, others.file))
	s.logs.wait(t, "secret file reloaded")
	if resumed, err := ask(); err == nil {
		t.Errorf("a client of the removed authority is let in, resumed: %v", resumed)
	}
}
