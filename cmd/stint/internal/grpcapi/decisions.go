package grpcapi

import (
	"time"

	"github.com/stintdev/stint"
	stintv1 "github.com/stintdev/stint/api/stint/v1"
)

// decision converts a decision to its message.
func decision(d *stint.Decision) *stintv1.Decision {
	return &stintv1.Decision{
		Allowed: d.Allowed, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfterUs: retry(d), ResetAfterUs: micros(d.ResetAfter),
		NextAfterUs: micros(d.NextAfter), DelayUs: micros(d.Delay),
		Granted: d.Granted, AtUs: d.At, Never: d.RetryAfter == stint.Never, Degraded: d.Degraded, Unavailable: d.Unavailable,
		Penalty: penalty(d),
	}
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// retry returns RetryAfter in microseconds, 0 for Never.
func retry(d *stint.Decision) int64 {
	if d.RetryAfter == stint.Never {
		return 0
	}
	return micros(d.RetryAfter)
}

// penalty returns the kind of the penalty that denied, "" for none.
func penalty(d *stint.Decision) string {
	if d.Penalty == stint.NoPenalty {
		return ""
	}
	return d.Penalty.String()
}

// numberColumns maps each numeric field of a decision to its column.
var numberColumns = [...]struct {
	get func(*stint.Decision) int64
	put func(*stintv1.Decisions, []int64)
}{
	{func(d *stint.Decision) int64 { return d.Limit }, func(m *stintv1.Decisions, c []int64) { m.Limit = c }},
	{func(d *stint.Decision) int64 { return d.Remaining }, func(m *stintv1.Decisions, c []int64) { m.Remaining = c }},
	{retry, func(m *stintv1.Decisions, c []int64) { m.RetryAfterUs = c }},
	{func(d *stint.Decision) int64 { return micros(d.ResetAfter) }, func(m *stintv1.Decisions, c []int64) { m.ResetAfterUs = c }},
	{func(d *stint.Decision) int64 { return micros(d.NextAfter) }, func(m *stintv1.Decisions, c []int64) { m.NextAfterUs = c }},
	{func(d *stint.Decision) int64 { return micros(d.Delay) }, func(m *stintv1.Decisions, c []int64) { m.DelayUs = c }},
	{func(d *stint.Decision) int64 { return d.Granted }, func(m *stintv1.Decisions, c []int64) { m.Granted = c }},
	{func(d *stint.Decision) int64 { return d.At }, func(m *stintv1.Decisions, c []int64) { m.AtUs = c }},
}

var truthColumns = [...]struct {
	get func(*stint.Decision) bool
	put func(*stintv1.Decisions, []bool)
}{
	{func(d *stint.Decision) bool { return d.Allowed }, func(m *stintv1.Decisions, c []bool) { m.Allowed = c }},
	{func(d *stint.Decision) bool { return d.RetryAfter == stint.Never }, func(m *stintv1.Decisions, c []bool) { m.Never = c }},
	{func(d *stint.Decision) bool { return d.Degraded }, func(m *stintv1.Decisions, c []bool) { m.Degraded = c }},
	{func(d *stint.Decision) bool { return d.Unavailable }, func(m *stintv1.Decisions, c []bool) { m.Unavailable = c }},
	{func(d *stint.Decision) bool { return d.Repeated }, func(m *stintv1.Decisions, c []bool) { m.Repeats = c }},
}

// decisionColumns converts many decisions to one message.
func decisionColumns(ds []stint.Decision) *stintv1.Decisions {
	m := new(stintv1.Decisions)
	for i := range numberColumns {
		numberColumns[i].put(m, column(ds, numberColumns[i].get))
	}
	for i := range truthColumns {
		truthColumns[i].put(m, column(ds, truthColumns[i].get))
	}
	m.Penalty = column(ds, penalty)
	return m
}

// column returns the shortest column of values: empty if all are zero, one entry if
// all are equal.
func column[E any, V comparable](from []E, get func(*E) V) []V {
	var zero V
	if len(from) == 0 {
		return nil
	}
	first, same := get(&from[0]), 1
	for same < len(from) && get(&from[same]) == first {
		same++
	}
	switch {
	case same == len(from) && first == zero:
		return nil
	case same == len(from):
		return []V{first}
	}
	values := make([]V, len(from))
	for i := range from {
		values[i] = get(&from[i])
	}
	return values
}

// at returns entry i of a column. An empty column has the value otherwise for every item; a
// column of one entry has that value for every item.
func at[V any](column []V, i int, otherwise V) V {
	switch len(column) {
	case 0:
		return otherwise
	case 1:
		return column[0]
	}
	return column[i]
}

// checkColumn returns an error unless a column is empty, or has one entry, or n.
func checkColumn(name string, entries, n int) error {
	if entries <= 1 || entries == n {
		return nil
	}
	return badRequest("%s: has %d entries for %d (give one for each, one for all, or none)", name, entries, n)
}
