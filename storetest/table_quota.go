package storetest

import (
	"time"

	"github.com/stintdev/stint"
)

// seam is a quota of two units at the boundary of two periods. The script starts
// shortly before the first period ends.
type seam struct {
	name, start, period, anchor, offset string
	left, next                          time.Duration // length of the rest of the first period, and of the second
}

var seams = []seam{
	{name: "day", start: "2026-03-01T23:59:59Z", period: "day", left: sec, next: day},
	{name: "day at +02:00", start: "2026-06-30T21:59:59Z", period: "day", offset: "+02:00", left: sec, next: day},
	{name: "day at -03:30", start: "2026-01-01T03:29:59.999999Z", period: "day", offset: "-03:30", left: us, next: day},
	{name: "day from an anchor", start: "2026-01-01T17:00:00Z", period: "day", anchor: "2030-06-01T18:30:00Z", left: 90 * time.Minute, next: day},
	{name: "week begins on Monday", start: "2026-01-04T23:59:59Z", period: "week", left: sec, next: 7 * day},
	{name: "week at +14:00", start: "2026-01-04T09:59:59Z", period: "week", offset: "+14:00", left: sec, next: 7 * day},
	{name: "week from a Thursday", start: "2026-01-08T05:00:00Z", period: "week", anchor: "2025-01-02T06:00:00Z", left: time.Hour, next: 7 * day},
	{name: "month", start: "2026-04-30T23:59:59Z", period: "month", left: sec, next: 31 * day},
	{name: "month at -12:00", start: "2026-05-01T11:59:59Z", period: "month", offset: "-12:00", left: sec, next: 31 * day},
	{name: "month at the year's end", start: "2025-12-31T23:59:59Z", period: "month", left: sec, next: 31 * day},
	{name: "February of a leap year", start: "2024-02-28T23:59:59Z", period: "month", left: day + sec, next: 31 * day},
	{name: "February of a common year", start: "2023-02-28T23:59:59Z", period: "month", left: sec, next: 31 * day},
	{name: "February of 2000", start: "2000-02-28T23:59:59Z", period: "month", left: day + sec, next: 31 * day},
	{name: "February of 2100", start: "2100-02-28T23:59:59Z", period: "month", left: sec, next: 31 * day},
	{name: "into February", start: "2024-01-31T23:59:59Z", period: "month", left: sec, next: 29 * day},
	{name: "anchor on the 31st, into 28 February", start: "2026-02-28T11:59:59Z", period: "month", anchor: "2026-01-31T12:00:00Z", left: sec, next: 31 * day},
	{name: "anchor on the 31st, into 29 February", start: "2028-02-29T11:59:59Z", period: "month", anchor: "2026-01-31T12:00:00Z", left: sec, next: 31 * day},
	{name: "anchor on the 31st, into 31 March", start: "2026-03-31T11:59:59Z", period: "month", anchor: "2026-01-31T12:00:00Z", left: sec, next: 30 * day},
	{name: "anchor on the 31st, into 30 April", start: "2026-04-30T11:59:59Z", period: "month", anchor: "2026-01-31T12:00:00Z", left: sec, next: 31 * day},
	{name: "anchor on the 30th, into 28 February", start: "2023-02-27T23:59:59Z", period: "month", anchor: "2022-12-30T00:00:00Z", left: sec, next: 30 * day},
	{name: "anchor on the 29th, into 28 February", start: "2023-02-27T23:59:59Z", period: "month", anchor: "2024-02-29T00:00:00Z", left: sec, next: 29 * day},
	{name: "anchor on the 29th, into 29 February", start: "2024-02-28T23:59:59Z", period: "month", anchor: "2024-05-29T00:00:00Z", left: sec, next: 29 * day},
	{name: "anchor in its own offset", start: "2026-02-27T21:59:59Z", period: "month", anchor: "2026-01-31T00:00:00+02:00", left: sec, next: 31 * day},
	{name: "anchor in another offset", start: "2026-02-28T22:59:59Z", period: "month", anchor: "2026-01-31T23:00:00Z", offset: "+02:00", left: sec, next: 31 * day},
	{name: "30 days from an anchor", start: "2026-03-01T23:59:59Z", period: "30d", anchor: "2026-01-31T00:00:00Z", left: sec, next: 30 * day},
	{name: "30 days before an anchor", start: "2026-01-30T23:59:59Z", period: "30d", anchor: "2026-03-02T00:00:00Z", left: sec, next: 30 * day},
	{name: "12 hours from an anchor", start: "2026-01-01T08:59:59Z", period: "12h", anchor: "2024-02-29T21:00:00Z", left: sec, next: 12 * time.Hour},
}

func quotaTables() []table {
	all := []table{quotaKeepsItsCount()}
	for _, s := range seams {
		all = append(all, s.table())
	}
	return all
}

func (s seam) table() table {
	n, end := s.left, s.left+s.next
	return table{
		name: "quota by " + s.name, start: s.start,
		spec: stint.Spec{Algorithm: stint.Quota, Limit: 2, Period: s.period, Anchor: s.anchor, UTCOffset: s.offset},
		rows: []row{
			take(0, 0, yes(2, 0, 0)),
			take(0, 2, yes(0, n, n)),
			take(n-us, 1, no(0, us, us, us)),
			take(n, 3, no(2, stint.Never, 0, 0)),
			take(n, 2, yes(0, s.next, s.next)),
			take(0, 1, no(0, end, end, end)).at(n),
			back(n, 1, 0, yes(0, s.next, s.next)), // of the previous period
			back(n, 1, n, yes(1, s.next, s.next)),
			take(end-us, 1, yes(0, us, us)),
			take(end-us, 1, no(0, us, us, us)),
			take(end, 0, yes(2, 0, 0)),
		},
	}
}

func quotaKeepsItsCount() table {
	daily := func(limit int64, anchor string) stint.Spec {
		return stint.Spec{Algorithm: stint.Quota, Limit: limit, Period: "day", Anchor: anchor}
	}
	return table{name: "quota keeps its count", spec: daily(3, ""), rows: []row{
		take(0, 3, yes(0, day, day)),
		change(daily(5, "")),
		more(time.Hour, 1, 5, granted(1, 0, 23*time.Hour, 23*time.Hour)),
		change(daily(4, "")),
		take(time.Hour, 1, no(0, 23*time.Hour, 23*time.Hour, 23*time.Hour)),
		back(time.Hour, 3, 0, yes(2, 23*time.Hour, 23*time.Hour)),
		change(daily(4, "2026-01-01T12:00:00Z")),
		take(time.Hour, 4, yes(0, 11*time.Hour, 11*time.Hour)), // another anchor is another limit
	}}
}
