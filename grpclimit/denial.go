package grpclimit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// pushbackField tells clients with a retry policy when to try again, in milliseconds;
// a negative number forbids retries (gRFC A6).
const pushbackField = "grpc-retry-pushback-ms"

// mostJitter bounds the jitter. It spreads clients enough, however long their wait.
const mostJitter = 24 * time.Hour

// denial is a denied answer with its time to try again.
type denial struct {
	answer *httplimit.Answer
	method string
	wait   time.Duration // until the next try; stint.Never: no wait helps
}

func newDenial(a *httplimit.Answer, method string) denial {
	d := denial{answer: a, method: method, wait: a.Decision.RetryAfter}
	switch {
	case a.Listed:
		d.wait = stint.Never
	case d.wait != stint.Never && a.Jitter > 0: // false for NaN
		spread := min(a.Jitter, 1) * float64(d.wait)
		d.wait += rand.N(time.Duration(min(spread, float64(mostJitter))) + 1)
	}
	return d
}

// pushback returns the wait in whole milliseconds, rounded up. Clients parse it as an
// int32; a longer wait, of more than 24 days, forbids retries.
func (d *denial) pushback() string {
	ms := int64((d.wait-1)/time.Millisecond + 1)
	if d.wait == stint.Never || ms > math.MaxInt32 {
		return "-1"
	}
	return strconv.FormatInt(ms, 10)
}

func (d *denial) status() *status.Status {
	switch d.answer.Status() {
	case http.StatusForbidden:
		return status.New(codes.PermissionDenied, "access is denied by a list")
	case http.StatusServiceUnavailable:
		return withDetails(status.New(codes.Unavailable, unavailable), retryInfo(d.wait)...)
	}
	details := append(retryInfo(d.wait), &errdetails.QuotaFailure{Violations: d.violations()})
	return withDetails(status.New(codes.ResourceExhausted, d.message()), details...)
}

// withDetails adds details to a status, and returns it unchanged if they cannot be
// encoded.
func withDetails(s *status.Status, details ...protoadapt.MessageV1) *status.Status {
	if detailed, err := s.WithDetails(details...); err == nil {
		return detailed
	}
	return s
}

// retryInfo returns the RetryInfo of a wait, none for stint.Never.
func retryInfo(wait time.Duration) []protoadapt.MessageV1 {
	if wait == stint.Never {
		return nil
	}
	return []protoadapt.MessageV1{&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}}
}

func (d *denial) message() string {
	a := d.answer
	if a.Binding < 0 || a.Binding >= len(a.Policies) {
		return "rate limit exceeded"
	}
	return exceeded(&a.Policies[a.Binding])
}

func exceeded(p *httplimit.Policy) string {
	return fmt.Sprintf("rate limit %s of %d per %v exceeded", p.Name, p.Limit.Max(), p.Limit.Window())
}

// violations returns the limits that are marked as exceeded, or the binding one if
// no limit is marked.
func (d *denial) violations() (all []*errdetails.QuotaFailure_Violation) {
	marked := false
	for i := range d.answer.Policies {
		marked = marked || d.answer.Policies[i].Exceeded
	}
	for i := range d.answer.Policies {
		if p := &d.answer.Policies[i]; p.Exceeded || !marked && i == d.answer.Binding {
			all = append(all, d.violation(p))
		}
	}
	return all
}

// violation names the limit but not the key: statuses are widely logged, and the key
// may be a secret.
func (d *denial) violation(p *httplimit.Policy) *errdetails.QuotaFailure_Violation {
	service, _, _ := strings.Cut(strings.TrimPrefix(d.method, "/"), "/")
	return &errdetails.QuotaFailure_Violation{
		Subject: p.Name, Description: exceeded(p),
		ApiService: service, QuotaId: p.Name, QuotaValue: p.Limit.Max(),
	}
}

// fields returns the HTTP header fields of an answer as metadata. It omits Retry-After
// and Cache-Control: RetryInfo and the pushback field have the retry time.
func fields(a *httplimit.Answer, now time.Time) metadata.MD {
	h := make(http.Header, 8)
	a.SetHeaders(h, now)
	md := make(metadata.MD, len(h)+1)
	for name, values := range h {
		if name != "Retry-After" && name != "Cache-Control" {
			md[strings.ToLower(name)] = values
		}
	}
	return md
}
