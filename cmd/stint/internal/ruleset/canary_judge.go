package ruleset

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// CanaryRequests is the number of requests that each side of a canary must have had before its
// errors are judged, and the number of decided ones before its denials are.
const CanaryRequests = 1000

// The canary's share of errors may be greater than the control's by canaryErrors, and at most
// canaryErrorFactor times it. A short failure of the store hits both sides, but by chance one more
// than the other: the factor keeps that from ending the canary.
const (
	canaryErrors      = 0.01
	canaryErrorFactor = 2
)

// CanaryReason says why a canary has ended.
type CanaryReason string

// The reasons.
const (
	CanaryOperator CanaryReason = "operator" // somebody has ended it
	CanarySoaked   CanaryReason = "soak"     // its time is over, and nothing spoke against it
	CanaryDenied   CanaryReason = "denied"   // it denied more than it may
	CanaryErrors   CanaryReason = "errors"   // it had more errors than it may
)

// Verdict says what the counts of a canary lead to.
type Verdict struct {
	Promote bool
	Reason  CanaryReason // empty: the canary goes on
	Text    string       // for people
}

// Judge returns what follows from the counts at a time. Until each side has had [CanaryRequests],
// nothing does, even when the soak is over: rules that nobody has tried are not promoted. Errors
// try no rules. They count only for the comparison of errors, so that a store that fails on both
// sides neither hides denials nor lets the soak promote. The counts are those since the beginning,
// and nodes that restart begin anew.
func (s *CanaryStatus) Judge(now time.Time) Verdict {
	c := s.Version.Canary
	if c == nil || s.Control.Requests < CanaryRequests || s.Canary.Requests < CanaryRequests {
		return Verdict{}
	}
	canary, control := s.Canary.ErrorShare(), s.Control.ErrorShare()
	if canary-control > canaryErrors && canary > canaryErrorFactor*control {
		return Verdict{false, CanaryErrors, fmt.Sprintf("%.2f %% of %d requests had errors, against %.2f %% of %d with the old rules",
			100*canary, s.Canary.Requests, 100*control, s.Control.Requests)}
	}
	if s.Control.Decided() < CanaryRequests || s.Canary.Decided() < CanaryRequests {
		return Verdict{}
	}
	denied := fmt.Sprintf("%.2f %% of %d requests denied, against %.2f %% of %d with the old rules",
		100*s.Canary.DeniedShare(), s.Canary.Decided(), 100*s.Control.DeniedShare(), s.Control.Decided())
	switch {
	case s.Canary.DeniedShare()-s.Control.DeniedShare() > c.AbortAbove:
		return Verdict{false, CanaryDenied, fmt.Sprintf("%s, which is more than %.2f %% above", denied, 100*c.AbortAbove)}
	case c.Soak > 0 && now.Sub(s.Version.Time) >= c.Soak:
		return Verdict{true, CanarySoaked, fmt.Sprintf("%v are over; %s", c.Soak, denied)}
	}
	return Verdict{}
}

// judgeCanary ends the canary that this node runs if the counts of all nodes say so. Every node
// judges; the first one that publishes the end succeeds, and for the others the canary is gone.
func (m *Manager) judgeCanary(ctx context.Context, fleet Fleet) {
	_, on := m.Current()
	if on.Canary == nil || m.Stale() {
		m.unjudged = ""
		return
	}
	nodes, err := fleet.Nodes(ctx)
	if err != nil {
		return // the loop that checks the source reports it
	}
	self := m.Self()
	s := statusOf(on.listed(), replaceSelf(nodes, self))
	v := s.Judge(time.Now())
	if v.Reason == "" || v.Promote && self.Emergency != "" {
		return // nobody expects new rules in an emergency, whose denials also hide those of the canary
	}
	result := "aborted"
	if v.Promote {
		result = "promoted"
	}
	ended, err := m.EndCanary(ctx, CanaryEnd{Number: on.Number, Promote: v.Promote, Author: "stint, node " + self.ID,
		Comment: fmt.Sprintf("canary %d %s: %s", on.Number, result, v.Text)})
	_, gone := errors.AsType[*CanaryGoneError](err)
	switch {
	case gone: // another node or an operator was faster
	case err != nil && err.Error() != m.unjudged:
		m.unjudged = err.Error()
		m.Logger.Error("canary: it should end, and this node cannot publish that; it tries again", "canary", on.Number, "result", result, "reason", v.Text, "error", err)
	case err == nil:
		m.Logger.Warn("canary "+result, "canary", on.Number, "version", ended.Number, "reason", v.Text)
		m.CanaryEnded(v.Promote, v.Reason)
	}
}

// CanaryEnded reports to OnCanaryEnd that this node has ended a canary.
func (m *Manager) CanaryEnded(promoted bool, why CanaryReason) {
	if m.OnCanaryEnd != nil {
		m.OnCanaryEnd(promoted, why)
	}
}
