package oracle

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// calendar computes when the periods of a quota begin, by package time.
type calendar struct {
	period string
	length int64     // in µs, for a period given as a length
	anchor time.Time // in the zone of the calendar

	anchored bool // the spec has an anchor; false: anchor is 1 January 2001
}

func newCalendar(s stint.Spec) calendar {
	c := calendar{period: s.Period, anchored: s.Anchor != ""}
	zone := time.UTC
	if s.Anchor != "" {
		c.anchor = must(time.Parse(time.RFC3339, s.Anchor))
		zone = offsetOf(c.anchor)
	}
	if s.UTCOffset != "" {
		zone = offsetOf(must(time.Parse("Z07:00", s.UTCOffset)))
	}
	if s.Anchor == "" {
		c.anchor = time.Date(2001, time.January, 1, 0, 0, 0, 0, zone) // a Monday
	}
	c.anchor = c.anchor.In(zone)
	if days, isDays := strings.CutSuffix(s.Period, "d"); isDays {
		c.length = int64(must(strconv.Atoi(days))) * (24 * time.Hour).Microseconds()
	} else if c.period != "day" && c.period != "week" && c.period != "month" {
		c.length = must(time.ParseDuration(s.Period)).Microseconds()
	}
	return c
}

// offsetOf returns the fixed offset of a parsed time as a location. The time's
// own location is unsuitable: if the offset matches the machine's zone, package
// time uses that zone, with its daylight saving time.
func offsetOf(t time.Time) *time.Location {
	_, seconds := t.Zone()
	return time.FixedZone("", seconds)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("oracle: " + err.Error())
	}
	return v
}

// cut returns text that differs between calendars of different period, anchor or
// offset. It is part of the shape of a limit.
func (c calendar) cut() string {
	return fmt.Sprint(c.period, c.anchored, c.anchor.Format(time.RFC3339Nano))
}

// start returns when the period of t began.
func (c calendar) start(t int64) int64 {
	local := time.UnixMicro(t).In(c.anchor.Location())
	switch c.period {
	case "day":
		return c.daily(local).UnixMicro()
	case "week":
		day := c.daily(local)
		for day.Weekday() != c.anchor.Weekday() {
			day = day.AddDate(0, 0, -1)
		}
		return day.UnixMicro()
	case "month":
		return c.monthly(local).UnixMicro()
	}
	a := c.anchor.UnixMicro()
	return a + floor(t-a, c.length)*c.length
}

// daily returns the last time at or before local that has the anchor's time of
// day.
func (c calendar) daily(local time.Time) time.Time {
	y, m, d := local.Date()
	if start := c.clockOn(y, m, d); !start.After(local) {
		return start
	}
	return c.clockOn(y, m, d-1)
}

// monthly returns the last beginning of a month of the calendar at or before
// local.
func (c calendar) monthly(local time.Time) time.Time {
	y, m, _ := local.Date()
	if start := c.dayOfMonth(y, m); !start.After(local) {
		return start
	}
	return c.dayOfMonth(y, m-1)
}

// dayOfMonth returns when the calendar's month begins: on the anchor's day, or on
// the last day of a shorter month.
func (c calendar) dayOfMonth(y int, m time.Month) time.Time {
	last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return c.clockOn(y, m, min(c.anchor.Day(), last))
}

// clockOn returns the anchor's time of day on a date.
func (c calendar) clockOn(y int, m time.Month, d int) time.Time {
	hour, minute, second := c.anchor.Clock()
	return time.Date(y, m, d, hour, minute, second, c.anchor.Nanosecond(), c.anchor.Location())
}
