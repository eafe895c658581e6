package server

import (
	"context"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// heldStore answers once the test releases it.
type heldStore struct {
	stint.Store

	asked, released chan struct{}
}

func (h *heldStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, h, c)
}

func (h *heldStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	h.asked <- struct{}{}
	<-h.released
	return h.Store.TakeGroups(ctx, groups, out)
}

func TestADrainAnswersTheCallsInFlight(t *testing.T) {
	t.Parallel()
	store := &heldStore{stint.NewMemory(stint.MemoryOptions{MaxKeys: 100}), make(chan struct{}, 1), make(chan struct{})}
	s, client := runEnvoy(t, Config{Store: store})
	answered := make(chan error, 1)
	go func() {
		_, err := client.ShouldRateLimit(context.WithoutCancel(t.Context()), ofUser("ann", 1))
		answered <- err
	}()
	<-store.asked
	s.stop()
	s.logs.wait(t, "draining")
	close(store.released)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if _, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1)); status.Code(err) != codes.Unavailable {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestConnectionsToGRPCEndAtTheirAge(t *testing.T) {
	t.Parallel()
	s := run(t, Config{GRPC: "127.0.0.1:0", GRPCMaxAge: 50 * time.Millisecond, GRPCMaxAgeGrace: time.Second})
	conn := dialGRPC(t, s)
	conn.Connect()
	ctx := patient(t)
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			t.Fatal("never ready")
		}
	}
	if !conn.WaitForStateChange(ctx, connectivity.Ready) {
		t.Error("the connection stays")
	}
}

func TestGRPCMayHaveCertificatesOfItsOwn(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	server, friend, stranger := ours.files(), ours.files(), theirs.files()
	ours.issue(1, server)
	ours.issue(2, friend)
	theirs.issue(3, stranger)
	server.ClientCA = ours.file
	check := func(name string, files TLSFiles) error {
		t.Helper()
		server.ClientName = name
		s := run(t, Config{GRPC: "127.0.0.1:0", GRPCTLS: server})
		if got := s.get("http", "/healthz"); got.status != 200 { // the http listener has no TLS
			t.Errorf("/healthz: %d", got.status)
		}
		conn, err := grpc.NewClient(s.Addr("grpc").String(), grpc.WithTransportCredentials(credentials.NewTLS(ours.client(files))))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = healthpb.NewHealthClient(conn).Check(patient(t), &healthpb.HealthCheckRequest{Service: ratelimitService})
		s.Reload()
		s.logs.wait(t, "secret file reloaded")
		return err
	}
	for _, name := range []string{"", "127.0.0.1"} {
		if err := check(name, friend); err != nil {
			t.Errorf("a client for %q: %v", name, err)
		}
	}
	for name, files := range map[string]TLSFiles{"other.example": friend, "": {}, "127.0.0.1": stranger} {
		if err := check(name, files); status.Code(err) != codes.Unavailable {
			t.Errorf("%q: %v", name, err)
		}
	}
	wrong := Config{Store: stint.NewMemory(stint.MemoryOptions{}), GRPCTLS: TLSFiles{Cert: server.Cert, Key: server.Key, ClientName: "x"}}
	if _, err := New(wrong); err == nil {
		t.Error("a name that nobody vouches for was taken")
	}
}

func TestEnvoysModesReachTheService(t *testing.T) {
	t.Parallel()
	_, client := runEnvoy(t, Config{EnvoyCompat: true, EnvoyStop: true, EnvoyQuota: true, EnvoyMetadata: true})
	for i := range 4 {
		answer, err := client.ShouldRateLimit(patient(t), ofUser("ann", 1))
		fields := answer.GetDynamicMetadata().GetFields()
		over := ratelimitpb.RateLimitResponse_OK
		if i == 3 {
			over = ratelimitpb.RateLimitResponse_OVER_LIMIT
		}
		if err != nil || answer.GetOverallCode() != over || answer.GetStatuses()[0].GetCode() != over || fields["domain"].GetStringValue() != "shop" || fields["quotaModeEnabled"] != nil {
			t.Errorf("request %d: %v, %v", i, answer, err)
		}
	}
}
