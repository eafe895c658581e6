package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// apart runs this program again for a piece of work, so that the memory of earlier work
// does not affect it, and decodes the result.
func apart(ctx context.Context, work string, keys int, answer any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "-here", work, "-keys", strconv.Itoa(keys))
	var problem strings.Builder
	child.Stderr = &problem
	out, err := child.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", work, err, problem.String())
	}
	return json.Unmarshal(out, answer)
}

// here does the work that -here names: it measures something and prints the result as
// JSON, or it serves.
func here(work string, keys int, out io.Writer) error {
	switch work {
	case emptyWork:
		return serveHere("grpc", newEmptyServer().Serve)
	case applicationWork:
		return serveHere("http", newApplication().Serve)
	case collectorWork:
		return serveHere("http", newCollector().Serve)
	}
	measured, err := measureHere(work, keys)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(measured)
}

func measureHere(work string, keys int) (any, error) {
	if work == "flood" {
		return pourAll(keys)
	}
	name, found := strings.CutPrefix(work, "fill:")
	if !found {
		return nil, fmt.Errorf("-here: %q is unknown: use flood, fill:NAME, %s, %s or %s", work, emptyWork, applicationWork, collectorWork)
	}
	i := slices.IndexFunc(contestants(), func(c contestant) bool { return c.name == name })
	if i < 0 {
		return nil, fmt.Errorf("-here: no contestant is called %q", name)
	}
	return fillOne(contestants()[i], keys)
}

// The servers that -here starts.
const (
	applicationWork = "application"  // the application behind a proxy
	emptyWork       = "empty-server" // a gRPC server that decides nothing
)

// serveHere serves on a free port until the process is ended. It logs the address in the
// form of stint serve, which startHere reads.
func serveHere(name string, serve func(net.Listener) error) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.Info("listening", "name", name, "addr", l.Addr().String())
	log.Info("ready")
	return serve(l)
}

// newApplication answers each request at once.
func newApplication() *http.Server {
	return &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})}
}

// emptyServer answers each call at once. It shows the cost of grpc-go alone.
type emptyServer struct {
	ratelimitpb.UnimplementedRateLimitServiceServer

	answer *ratelimitpb.RateLimitResponse
}

// ShouldRateLimit returns the same response to every call, as long as one of Stint's.
func (e *emptyServer) ShouldRateLimit(context.Context, *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error) {
	return e.answer, nil
}

func newEmptyServer() *grpc.Server {
	const limit = 50_000_000
	s := grpc.NewServer()
	ratelimitpb.RegisterRateLimitServiceServer(s, &emptyServer{answer: &ratelimitpb.RateLimitResponse{
		OverallCode: ratelimitpb.RateLimitResponse_OK,
		Statuses: []*ratelimitpb.RateLimitResponse_DescriptorStatus{{
			Code:               ratelimitpb.RateLimitResponse_OK,
			CurrentLimit:       &ratelimitpb.RateLimitResponse_RateLimit{RequestsPerUnit: limit, Unit: ratelimitpb.RateLimitResponse_RateLimit_HOUR},
			LimitRemaining:     limit - 1,
			DurationUntilReset: &durationpb.Duration{Seconds: 1800},
		}},
	}})
	return s
}
