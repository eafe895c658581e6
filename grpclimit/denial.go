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
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

// pushbackField tells clients with a retry policy when to try again, in
// milliseconds, and by a number below 0 that they should not (gRFC A6).
const pushbackField = "grpc-retry-pushback-ms"

// mostJitter is enough to spread who was denied at once, however long they wait.
const mostJitter = 24 * time.Hour

// denial is what is told of an answer that may not pass.
type denial struct {
	answer *httplimit.Answer
	method string
	wait   time.Duration // until it is worth to try again; stint.Never: it is not
}

func newDenial(a *httplimit.Answer, method string) denial {
	d := denial{answer: a, method: method, wait: a.Decision.RetryAfter}
	switch {
	case a.Listed:
		d.wait = stint.Never
	case d.wait != stint.Never && a.Jitter > 0: // which no NaN is
		spread := min(a.Jitter, 1) * float64(d.wait)
		d.wait += rand.N(time.Duration(min(spread, float64(mostJitter))) + 1)
	}
	return d
}

// pushback is the wait in whole milliseconds, rounded up. Clients read it into
// 32 bits; what is longer than that, 24 days, is not waited for.
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

// withDetails keeps a status without details where they cannot be written.
func withDetails(s *status.Status, details ...protoadapt.MessageV1) *status.Status {
	if detailed, err := s.WithDetails(details...); err == nil {
		return detailed
	}
	return s
}

// retryInfo is absent when no wait helps.
func retryInfo(wait time.Duration) []protoadapt.MessageV1 {
	if wait == stint.Never {
		return nil
	}
	return []protoadapt.MessageV1{&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}}
}

func (d *denial) message() string {
	a := d.answer
	if a.Face < 0 || a.Face >= len(a.Policies) {
		return "rate limit exceeded"
	}
	return exceeded(&a.Policies[a.Face])
}

func exceeded(p *httplimit.Policy) string {
	return fmt.Sprintf("rate limit %s of %d per %v exceeded", p.Name, p.Limit.Max(), p.Limit.Window())
}

// violations is the limits that denied; the deciding one when none is marked.
func (d *denial) violations() (all []*errdetails.QuotaFailure_Violation) {
	marked := false
	for i := range d.answer.Policies {
		marked = marked || d.answer.Policies[i].Exceeded
	}
	for i := range d.answer.Policies {
		if p := &d.answer.Policies[i]; p.Exceeded || !marked && i == d.answer.Face {
			all = append(all, d.violation(p))
		}
	}
	return all
}

// violation names the limit and not who exceeded it: a status is logged by
// many, and whose use is counted may be a secret.
func (d *denial) violation(p *httplimit.Policy) *errdetails.QuotaFailure_Violation {
	service, _, _ := strings.Cut(strings.TrimPrefix(d.method, "/"), "/")
	return &errdetails.QuotaFailure_Violation{
		Subject: p.Name, Description: exceeded(p),
		ApiService: service, QuotaId: p.Name, QuotaValue: p.Limit.Max(),
	}
}
