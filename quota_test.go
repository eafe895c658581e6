package stint

import (
	"testing"
	"time"

	"github.com/stintdev/stint/internal/property"
)

func microsOf(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

func TestPeriodsFollowTheCalendar(t *testing.T) {
	for name, c := range map[string]struct {
		spec            Spec
		now, start, end string
	}{
		"day":                              {Spec{Period: "day"}, "2026-11-21T10:00:00Z", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		"day at its first moment":          {Spec{Period: "day"}, "2026-11-21T00:00:00Z", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		"day of an eastern offset":         {Spec{Period: "day", UTCOffset: "+02:00"}, "2026-11-21T22:30:00Z", "2026-11-21T22:00:00Z", "2026-11-22T22:00:00Z"},
		"day of the eastern end":           {Spec{Period: "day", UTCOffset: "+14:00"}, "2026-11-21T22:30:00Z", "2026-11-21T10:00:00Z", "2026-11-22T10:00:00Z"},
		"day of the western end":           {Spec{Period: "day", UTCOffset: "-14:00"}, "2026-11-21T22:30:00Z", "2026-11-21T14:00:00Z", "2026-11-22T14:00:00Z"},
		"day of a western offset":          {Spec{Period: "day", UTCOffset: "-05:30"}, "2026-11-21T05:00:00Z", "2026-11-20T05:30:00Z", "2026-11-21T05:30:00Z"},
		"day from an anchor":               {Spec{Period: "day", Anchor: "2026-01-01T09:15:00Z"}, "2026-11-21T09:14:59Z", "2026-11-20T09:15:00Z", "2026-11-21T09:15:00Z"},
		"week begins on Monday":            {Spec{Period: "week"}, "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		"week before the epoch's":          {Spec{Period: "week"}, "1970-01-01T00:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z"},
		"week from an anchor":              {Spec{Period: "week", Anchor: "2026-11-18T12:00:00Z"}, "2026-11-25T11:59:59Z", "2026-11-18T12:00:00Z", "2026-11-25T12:00:00Z"},
		"month":                            {Spec{Period: "month"}, "2026-02-15T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		"month over new year":              {Spec{Period: "month"}, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		"month of an offset":               {Spec{Period: "month", UTCOffset: "+02:00"}, "2026-01-31T22:00:00Z", "2026-01-31T22:00:00Z", "2026-02-28T22:00:00Z"},
		"February of a leap year":          {Spec{Period: "month"}, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		"anchor 31 in February":            {Spec{Period: "month", Anchor: "2026-01-31T00:00:00Z"}, "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		"anchor 31 before February's end":  {Spec{Period: "month", Anchor: "2026-01-31T00:00:00Z"}, "2026-02-27T23:59:59Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		"anchor 31 in a leap February":     {Spec{Period: "month", Anchor: "2026-01-31T00:00:00Z"}, "2028-02-28T23:59:59Z", "2028-01-31T00:00:00Z", "2028-02-29T00:00:00Z"},
		"anchor 30 in April":               {Spec{Period: "month", Anchor: "2026-01-30T06:00:00Z"}, "2026-04-30T05:59:59Z", "2026-03-30T06:00:00Z", "2026-04-30T06:00:00Z"},
		"anchor 29 in a common year":       {Spec{Period: "month", Anchor: "2028-02-29T00:00:00Z"}, "2027-03-01T00:00:00Z", "2027-02-28T00:00:00Z", "2027-03-29T00:00:00Z"},
		"anchor's own offset is local":     {Spec{Period: "month", Anchor: "2026-01-31T00:00:00+02:00"}, "2026-02-28T00:00:00Z", "2026-02-27T22:00:00Z", "2026-03-30T22:00:00Z"},
		"length forward from its anchor":   {Spec{Period: "30d", Anchor: "2026-01-31T00:00:00Z"}, "2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-04-01T00:00:00Z"},
		"length backward from its anchor":  {Spec{Period: "12h", Anchor: "2026-01-31T06:00:00Z"}, "2026-01-30T17:59:59Z", "2026-01-30T06:00:00Z", "2026-01-30T18:00:00Z"},
		"length ending just at its anchor": {Spec{Period: "12h", Anchor: "2026-01-31T06:00:00Z"}, "2026-01-31T05:59:59Z", "2026-01-30T18:00:00Z", "2026-01-31T06:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Algorithm, c.spec.Limit = Quota, 1
			l, err := c.spec.Compile()
			if err != nil {
				t.Fatal(err)
			}
			start, end := l.n.period(microsOf(t, c.now))
			if start != microsOf(t, c.start) || end != microsOf(t, c.end) {
				t.Errorf("period of %s is %s to %s; want %s to %s", c.now, time.UnixMicro(start).UTC(), time.UnixMicro(end).UTC(), c.start, c.end)
			}
		})
	}
}

func TestCivilAgreesWithPackageTime(t *testing.T) {
	property.Check(t, func(t *property.T) {
		days := t.Int64("days", -719_162, 2_932_896) // years 1 to 9999
		want := time.Unix(days*86400, 0).UTC()
		year, month, day := civil(days)
		if year != int64(want.Year()) || month != int64(want.Month()) || day != int64(want.Day()) {
			t.Fatalf("civil(%d) = %d-%d-%d; want %s", days, year, month, day, want)
		}
		if back := dayNumber(year, month, day); back != days {
			t.Fatalf("dayNumber(civil(%d)) = %d", days, back)
		}
	})
}

func TestPeriodsTileTime(t *testing.T) {
	property.Check(t, func(t *property.T) {
		s := Spec{Algorithm: Quota, Limit: 1,
			Period:    property.Pick(t, "period", "day", "week", "month", "30d", "7h"),
			Anchor:    property.Pick(t, "anchor", "2026-01-31T00:00:00Z", "2024-02-29T23:59:59+05:45", "2026-03-30T01:00:00-08:00"),
			UTCOffset: property.Pick(t, "offset", "", "Z", "+02:00", "-11:30"),
		}
		l, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		now := t.Int64("now", 0, 4e15)
		start, end := l.n.period(now)
		if now < start || now >= end {
			t.Fatalf("%d is not in its period %d to %d", now, start, end)
		}
		if s, e := l.n.period(end - 1); s != start || e != end {
			t.Fatalf("the period's last moment is in %d to %d; want %d to %d", s, e, start, end)
		}
		if s, _ := l.n.period(end); s != end {
			t.Fatalf("the next period begins at %d; want %d", s, end)
		}
	})
}
