package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stintdev/stint"
)

func (q *question) envoy() *ratelimitpb.RateLimitRequest {
	entry := &commonpb.RateLimitDescriptor_Entry{Key: fmt.Sprintf("shape-%d", q.index), Value: q.key}
	one := &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{entry}, IsNegativeHits: q.cost < 0}
	one.HitsAddend = wrapperspb.UInt64(uint64(max(q.cost, -q.cost)))
	return &ratelimitpb.RateLimitRequest{Domain: "shapes", Descriptors: []*commonpb.RateLimitDescriptor{one}}
}

func saidByEnvoy(r *ratelimitpb.RateLimitResponse) string {
	one := r.GetStatuses()[0]
	return fmt.Sprintf("%v %v %d in %v", r.GetOverallCode(), one.GetCode(), one.GetLimitRemaining(), one.GetDurationUntilReset().AsDuration())
}

// inEnvoyAnswer is a decision in the form of Envoy's service: the time until more remains, in
// whole seconds. For a single fixed window it is always the end of the window.
func inEnvoyAnswer(q question, d decided) string {
	code, wait := ratelimitpb.RateLimitResponse_OK, d.combined.ResetAfter
	if !d.combined.Allowed {
		code = ratelimitpb.RateLimitResponse_OVER_LIMIT
		if d.combined.RetryAfter != stint.Never {
			wait = d.combined.RetryAfter
		}
	}
	if window := time.Minute.Microseconds(); q.fixed(d) {
		wait = time.Duration(window-d.combined.At%window) * time.Microsecond
	}
	return fmt.Sprintf("%v %v %d in %v", code, code, d.combined.Remaining, time.Duration(max(1, up(wait, time.Second)))*time.Second)
}

// fixed reports whether a fixed window decides.
func (q *question) fixed(d decided) bool {
	return q.shape.name == "fixed window" || d.each != nil && d.combined == d.each[1] && d.combined != d.each[0]
}

func askEnvoy(t *testing.T, w *world, q question, d decided) (got, want string) {
	r, err := w.envoy.ShouldRateLimit(patient(t), q.envoy())
	if err != nil {
		t.Fatal(err)
	}
	return saidByEnvoy(r), inEnvoyAnswer(q, d)
}

func askEnvoyJSON(t *testing.T, w *world, q question, d decided) (got, want string) {
	body, err := protojson.Marshal(q.envoy())
	if err != nil {
		t.Fatal(err)
	}
	a := w.post("http", "/json", string(body))
	var r ratelimitpb.RateLimitResponse
	if err := protojson.Unmarshal([]byte(a.body), &r); err != nil {
		t.Fatal(err)
	}
	status := http.StatusOK
	if !d.combined.Allowed {
		status = http.StatusTooManyRequests
	}
	return fmt.Sprint(a.status, saidByEnvoy(&r)), fmt.Sprint(status, inEnvoyAnswer(q, d))
}

func askRedis(t *testing.T, w *world, q question, d decided) (got, want string) {
	line := fmt.Sprintf("CL.THROTTLE %s %s %d", strings.ReplaceAll(q.key+q.shape.name, " ", "-"), q.shape.throttle, q.cost)
	limited, retry := 0, int64(-1)
	if !d.combined.Allowed {
		limited = 1
		if d.combined.RetryAfter != stint.Never {
			retry = likeCell(d.combined.RetryAfter)
		}
	}
	want = fmt.Sprintf("[*5 :%d :%d :%d :%d :%d]", limited, d.combined.Limit, d.combined.Remaining, retry, likeCell(d.combined.ResetAfter))
	return fmt.Sprint(askRESP(t, w.resp, line, 6)), want
}

// likeCell rounds as redis-cell does, which drops less than a millisecond.
func likeCell(d time.Duration) int64 { return up(d.Truncate(time.Millisecond), time.Second) }
