package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
	"github.com/stintdev/stint/rule"
)

func saidNatively(all ...*stintv1.Decision) string {
	said := make([]string, len(all))
	for i, d := range all {
		said[i] = d.String()
	}
	return strings.Join(said, "; ")
}

// inNative is every field of a decision, to the microsecond.
func inNative(all ...stint.Decision) string {
	messages := make([]*stintv1.Decision, len(all))
	for i, d := range all {
		m := &stintv1.Decision{
			Allowed: d.Allowed, Limit: d.Limit, Remaining: d.Remaining, ResetAfterUs: d.ResetAfter.Microseconds(),
			NextAfterUs: d.NextAfter.Microseconds(), DelayUs: d.Delay.Microseconds(), AtUs: d.At, Never: d.RetryAfter == stint.Never,
		}
		if !m.GetNever() {
			m.RetryAfterUs = d.RetryAfter.Microseconds()
		}
		messages[i] = m
	}
	return saidNatively(messages...)
}

// combinedAndLines writes the combined decision and those of each limit, if there are several.
func combinedAndLines(combined *stintv1.Decision, lines []*stintv1.LimitDecision) string {
	all := []*stintv1.Decision{combined}
	for _, l := range lines {
		all = append(all, l.GetDecision())
	}
	return saidNatively(all...)
}

func (q *question) limitMessages(t *testing.T) (all []*stintv1.Limit) {
	t.Helper()
	for _, text := range q.shape.limits {
		s, err := rule.ParseSpec([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &stintv1.Limit{
			Algorithm: s.Algorithm.String(), Limit: s.Limit, WindowUs: s.Window.Microseconds(), Capacity: s.Capacity, RefillRate: s.RefillRate,
			Buckets: uint32(s.Buckets), Queue: s.Queue, MaxWaitUs: s.MaxWait.Microseconds(), Period: s.Period, Anchor: s.Anchor, UtcOffset: s.UTCOffset,
		})
	}
	return all
}

func (q *question) nativeCheck() *stintv1.CheckRequest {
	return &stintv1.CheckRequest{Attributes: map[string]string{"api_key": q.key, "path": fmt.Sprintf("/said/%d", q.index)}, Cost: &q.cost}
}

func (q *question) nativeTake(t *testing.T) *stintv1.TakeRequest {
	t.Helper()
	return &stintv1.TakeRequest{Key: q.key + q.shape.name, Limits: q.limitMessages(t), Cost: &q.cost, AtUs: q.at}
}

func askNativeCheck(t *testing.T, w *world, q question, d decided) (got, want string) {
	r, err := w.native.Check(patient(t), q.nativeCheck())
	if err != nil {
		t.Fatal(err)
	}
	return combinedAndLines(r.GetDecision(), r.GetLimits()), inNative(append([]stint.Decision{d.combined}, d.lines()...)...)
}

func askNativeTake(t *testing.T, w *world, q question, d decided) (got, want string) {
	r, err := w.native.Take(patient(t), q.nativeTake(t))
	if err != nil {
		t.Fatal(err)
	}
	return combinedAndLines(r.GetDecision(), r.GetLimits()), inNative(append([]stint.Decision{d.combined}, d.each...)...)
}

func askNativeByName(t *testing.T, w *world, q question, d decided) (got, want string) {
	m := q.nativeTake(t)
	want = inNative(append([]stint.Decision{d.combined}, d.each...)...)
	switch {
	case q.cost == 0:
		r, err := w.native.Peek(patient(t), &stintv1.PeekRequest{Key: m.GetKey(), Limits: m.GetLimits()})
		if err != nil {
			t.Fatal(err)
		}
		return combinedAndLines(r.GetDecision(), r.GetLimits()), want
	case q.cost < 0:
		units := -q.cost
		r, err := w.native.GiveBack(patient(t), &stintv1.GiveBackRequest{Key: m.GetKey(), Limits: m.GetLimits(), Cost: &units, AtUs: q.at})
		if err != nil {
			t.Fatal(err)
		}
		return combinedAndLines(r.GetDecision(), r.GetLimits()), want
	}
	return askNativeTake(t, w, q, d)
}

// ofColumns returns the decision of one row.
func ofColumns(m *stintv1.Decisions, row int) *stintv1.Decision {
	number := func(column []int64) int64 {
		switch len(column) {
		case 0:
			return 0
		case 1:
			return column[0]
		}
		return column[row]
	}
	truth := func(column []bool) bool {
		return len(column) == 1 && column[0] || len(column) > 1 && column[row]
	}
	return &stintv1.Decision{
		Allowed: truth(m.GetAllowed()), Limit: number(m.GetLimit()), Remaining: number(m.GetRemaining()),
		RetryAfterUs: number(m.GetRetryAfterUs()), ResetAfterUs: number(m.GetResetAfterUs()), NextAfterUs: number(m.GetNextAfterUs()),
		DelayUs: number(m.GetDelayUs()), AtUs: number(m.GetAtUs()), Never: truth(m.GetNever()), Degraded: truth(m.GetDegraded()),
	}
}

func askNativeChecks(t *testing.T, w *world, q question, d decided) (got, want string) {
	r, err := w.native.CheckBatch(patient(t), &stintv1.CheckBatchRequest{
		Names: []string{"api_key", "path"}, Values: []string{"other", "/none", q.key, fmt.Sprintf("/said/%d", q.index)}, Cost: []int64{1, q.cost},
	})
	if err != nil {
		t.Fatal(err)
	}
	return saidNatively(ofColumns(r.GetDecisions(), 1)), inNative(d.combined)
}

func askNativeTakes(t *testing.T, w *world, q question, d decided) (got, want string) {
	m := q.nativeTake(t)
	n := len(m.GetLimits())
	batch := &stintv1.TakeBatchRequest{Limits: m.GetLimits(), Keys: []string{"other"}, Limit: []uint32{0}, Cost: []int64{1}, AtUs: []int64{0}, GroupSizes: []uint32{1, uint32(n)}}
	for i := range n {
		batch.Keys, batch.Limit = append(batch.Keys, m.GetKey()), append(batch.Limit, uint32(i))
		batch.Cost, batch.AtUs = append(batch.Cost, q.cost), append(batch.AtUs, q.at)
	}
	r, err := w.native.TakeBatch(patient(t), batch)
	if err != nil {
		t.Fatal(err)
	}
	var all []*stintv1.Decision
	for i := range n {
		all = append(all, ofColumns(r.GetDecisions(), i+1))
	}
	return saidNatively(all...), inNative(d.lines()...)
}

// inStream sends one request and waits for its answer.
func inStream(t *testing.T, w *world, r *stintv1.StreamRequest) *stintv1.Answer {
	t.Helper()
	if err := w.stream.Send(r); err != nil {
		t.Fatal(err)
	}
	m, err := w.stream.Recv()
	if err != nil || len(m.GetAnswers()) != 1 {
		t.Fatalf("%v, %v", m, err)
	}
	return m.GetAnswers()[0]
}

func askCheckInStream(t *testing.T, w *world, q question, d decided) (got, want string) {
	r := inStream(t, w, &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Check{Check: q.nativeCheck()}}).GetCheck()
	return combinedAndLines(r.GetDecision(), r.GetLimits()), inNative(append([]stint.Decision{d.combined}, d.lines()...)...)
}

func askTakeInStream(t *testing.T, w *world, q question, d decided) (got, want string) {
	r := inStream(t, w, &stintv1.StreamRequest{Request: &stintv1.StreamRequest_Take{Take: q.nativeTake(t)}}).GetTake()
	return combinedAndLines(r.GetDecision(), r.GetLimits()), inNative(append([]stint.Decision{d.combined}, d.each...)...)
}

func askRemote(t *testing.T, w *world, q question, d decided) (got, want string) {
	group := stint.Group{}
	for _, limit := range q.shape.compiled(t) {
		group.Claims = append(group.Claims, stint.Claim{Key: q.key + q.shape.name, Limit: limit, Cost: q.cost, At: q.at})
	}
	out := make([]stint.Decision, len(group.Claims))
	if err := w.remote.TakeGroups(patient(t), []stint.Group{group}, out); err != nil {
		t.Fatal(err)
	}
	_, combined := stint.Combine(group.Claims, out)
	return fmt.Sprintf("%+v %+v", combined, out), fmt.Sprintf("%+v %+v", d.combined, d.lines())
}
