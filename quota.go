package stint

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Quota: a count in the calendar period of t. The step is in fixed_window.go.
// The calendar has a fixed offset from UTC, so days are always 24 hours long.

const (
	microDay  = 24 * 60 * 60 * microUnits
	microWeek = 7 * microDay
	// aMonday is Monday, 5 January 1970, 00:00, in microseconds.
	aMonday = 4 * microDay
)

// calendar divides time into periods. They are either of one length, from
// origin in both directions, or months.
type calendar struct {
	length int64 // in µs; 0: months
	origin int64 // when one period began, in µs since the epoch

	// Months begin in local time, on day (1–31) at timeOfDay. offset and
	// timeOfDay are in µs.
	offset, day, timeOfDay int64

	said string // period, anchor and offset, as part of the shape of the limit
}

// period returns the period that contains t.
func (c *calendar) period(t int64) (start, end int64) {
	if c.length > 0 {
		start = c.origin + floorDiv(t-c.origin, c.length)*c.length
		return start, start + c.length
	}
	year, month, _ := civil(floorDiv(t+c.offset, microDay))
	m := year*12 + month - 1
	if start = c.monthStart(m); start > t {
		return c.monthStart(m - 1), start
	}
	return start, c.monthStart(m + 1)
}

// monthStart returns when the period that begins in month number m starts. Each
// month uses the anchor's day, or its last day if it is shorter: 31 January, 28
// February, 31 March.
func (c *calendar) monthStart(m int64) int64 {
	year, month := floorDiv(m, 12), m-floorDiv(m, 12)*12+1
	first := dayNumber(year, month, 1)
	next := dayNumber(floorDiv(m+1, 12), m+1-floorDiv(m+1, 12)*12+1, 1)
	day := min(c.day, next-first)
	return (first+day-1)*microDay + c.timeOfDay - c.offset
}

// dayNumber and civil convert between a date of the Gregorian calendar and
// days since 1 January 1970, by counting in eras of 400 years whose years
// begin in March, so that the leap day comes last (H. Hinnant,
// "chrono-compatible low-level date algorithms", 2013).
func dayNumber(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

func civil(days int64) (year, month, day int64) {
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	month = (5*dayOfYear + 2) / 153 // month counted from March
	day = dayOfYear - (153*month+2)/5 + 1
	year = yearOfEra + era*400
	if month += 3; month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// parseCalendar reads Period, Anchor and UTCOffset.
func (s *Spec) parseCalendar() (calendar, error) {
	anchor, err := s.parseAnchor()
	if err != nil {
		return calendar{}, err
	}
	offset, err := s.parseOffset(anchor)
	if err != nil {
		return calendar{}, err
	}
	c := calendar{origin: -offset}
	switch s.Period {
	case "day":
		c.length = microDay
	case "week":
		c.length, c.origin = microWeek, aMonday-offset
	case "month":
		c = monthly(anchor, offset)
	default:
		if c.length, err = s.parseLength(anchor); err != nil {
			return calendar{}, err
		}
	}
	if !anchor.IsZero() {
		c.origin = anchor.UnixMicro()
	}
	c.said = fmt.Sprintf("%s from %s at %d", s.Period, anchor.UTC().Format(time.RFC3339Nano), offset)
	return c, nil
}

// monthly returns the calendar of months that begin on the anchor's day and
// time in local time; without an anchor, on the first day at 00:00.
func monthly(anchor time.Time, offset int64) calendar {
	if anchor.IsZero() {
		return calendar{offset: offset, day: 1}
	}
	local := anchor.UnixMicro() + offset
	days := floorDiv(local, microDay)
	_, _, day := civil(days)
	return calendar{offset: offset, day: day, timeOfDay: local - days*microDay}
}

func (s *Spec) parseAnchor() (time.Time, error) {
	if s.Anchor == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s.Anchor)
	if err != nil || sixtyMinutes(s.Anchor) || t.Year() < 1 {
		return t, &LimitError{Field: "anchor", Problem: fmt.Sprintf("%.40q is not a time in RFC 3339", s.Anchor), Mend: "write it like 2026-01-31T00:00:00Z"}
	}
	if t.Nanosecond()%1000 != 0 {
		return t, &LimitError{Field: "anchor", Problem: fmt.Sprintf("%q is not whole microseconds", s.Anchor), Mend: "round it"}
	}
	return t, nil
}

// maxOffset is the greatest offset of a calendar, in seconds: that of the zone farthest
// from UTC.
const maxOffset = 14 * 60 * 60

// parseOffset returns the offset of the calendar in µs: UTCOffset, or the offset
// of the anchor if UTCOffset is empty.
func (s *Spec) parseOffset(anchor time.Time) (int64, error) {
	switch s.UTCOffset {
	case "":
		_, seconds := anchor.Zone()
		if max(seconds, -seconds) > maxOffset {
			return 0, &LimitError{Field: "anchor", Problem: fmt.Sprintf("%.40q has an offset beyond 14 hours", s.Anchor), Mend: "use an offset from -14:00 to +14:00"}
		}
		return int64(seconds) * microUnits, nil
	case "Z":
		return 0, nil
	}
	t, err := time.Parse("-07:00", s.UTCOffset)
	_, seconds := t.Zone()
	if err != nil || sixtyMinutes(s.UTCOffset) || max(seconds, -seconds) > maxOffset {
		return 0, &LimitError{Field: "utc_offset", Problem: fmt.Sprintf("%.40q is not an offset from UTC", s.UTCOffset), Mend: "write it like +02:00, from -14:00 to +14:00"}
	}
	return int64(seconds) * microUnits, nil
}

// sixtyMinutes reports whether text ends in an invalid offset such as +02:60,
// which package time accepts as +03:00.
func sixtyMinutes(text string) bool {
	return strings.HasSuffix(text, ":60")
}

// parseLength parses a period that is a length, and rewrites Period in its short
// form.
func (s *Spec) parseLength(anchor time.Time) (int64, error) {
	if s.Period == "" {
		return 0, &LimitError{Field: "period", Problem: "is missing", Mend: "use day, week, month, or a length such as 30d"}
	}
	length, ok := parseDays(s.Period)
	if !ok {
		return 0, &LimitError{Field: "period", Problem: fmt.Sprintf("%.40q is not a period", s.Period), Mend: "use day, week, month, or a length such as 30d or 12h"}
	}
	if err := checkWindow("period", length); err != nil {
		return 0, err
	}
	if anchor.IsZero() {
		return 0, &LimitError{Field: "anchor", Problem: "is missing for a period of " + s.Period, Mend: "say when one such period began, such as 2026-01-31T00:00:00Z"}
	}
	s.Period = windowText(length)
	if length%(24*time.Hour) == 0 {
		s.Period = strconv.FormatInt(int64(length/(24*time.Hour)), 10) + "d"
	}
	return length.Microseconds(), nil
}

// parseDays reads a Go duration, or whole days such as 30d.
func parseDays(text string) (time.Duration, bool) {
	if number, found := strings.CutSuffix(text, "d"); found {
		days, err := strconv.ParseUint(number, 10, 16)
		return time.Duration(days) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// longest returns the length of the longest period of the calendar.
func (c *calendar) longest() time.Duration {
	if c.length > 0 {
		return time.Duration(c.length) * time.Microsecond
	}
	return 31 * 24 * time.Hour
}
