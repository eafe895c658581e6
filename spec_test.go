package stint

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/property"
)

// drawWindow draws a valid window of whole microseconds.
func drawWindow(t *property.T) time.Duration {
	us := t.Int64("window µs", MinWindow.Microseconds(), MaxWindow.Microseconds())
	return time.Duration(us) * time.Microsecond
}

func TestSpecErrorsNameTheFieldAndTheMend(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		spec  Spec
		field string
	}{
		"nothing said":              {Spec{}, "refill_rate"},
		"capacity without a rate":   {Spec{Capacity: 10}, "refill_rate"},
		"limit without window":      {Spec{Limit: 10}, "window"},
		"limit below 1":             {Spec{Limit: -1, Window: time.Second}, "limit"},
		"limit above the greatest":  {Spec{Limit: MaxLimit + 1, Window: time.Second}, "limit"},
		"window too short":          {Spec{Limit: 1, Window: time.Microsecond}, "window"},
		"window too long":           {Spec{Limit: 1, Window: 401 * day}, "window"},
		"window of half a µs":       {Spec{Limit: 1, Window: time.Second + 500}, "window"},
		"rate said twice":           {Spec{Limit: 1, Window: time.Second, RefillRate: "1"}, "refill_rate"},
		"rate of zero":              {Spec{RefillRate: "0"}, "refill_rate"},
		"rate below zero":           {Spec{RefillRate: "-1"}, "refill_rate"},
		"rate too slow":             {Spec{RefillRate: "0.00000001"}, "refill_rate"},
		"rate too fast":             {Spec{RefillRate: "100000001"}, "refill_rate"},
		"limit makes rate too fast": {Spec{Limit: MaxLimit, Window: time.Second}, "limit"},
		"capacity below 1":          {Spec{RefillRate: "1", Capacity: -1}, "capacity"},
		"capacity never fills":      {Spec{RefillRate: "0.0000001", Capacity: MaxLimit}, "capacity"},
		"gcra with a rate":          {Spec{Algorithm: GCRA, RefillRate: "1"}, "refill_rate"},
		"buckets of a bucket":       {Spec{Limit: 1, Window: time.Second, Buckets: 2}, "buckets"},
		"too many buckets":          {Spec{Algorithm: SlidingWindowCounter, Limit: 1, Window: time.Minute, Buckets: 61}, "buckets"},
		"buckets do not divide":     {Spec{Algorithm: SlidingWindowCounter, Limit: 1, Window: time.Second, Buckets: 7}, "buckets"},
		"log too long":              {Spec{Algorithm: SlidingWindowLog, Limit: 10_001, Window: time.Second}, "limit"},
		"max_wait below 0":          {Spec{Algorithm: LeakyBucket, Limit: 1, Window: time.Second, MaxWait: -1}, "max_wait"},
		"max_wait too short":        {Spec{Algorithm: LeakyBucket, Limit: 1, Window: time.Second, MaxWait: time.Nanosecond}, "max_wait"},
		"max_wait too long":         {Spec{Algorithm: LeakyBucket, Limit: 1, Window: time.Second, MaxWait: MaxWindow + 1}, "max_wait"},
		"max_wait of nanoseconds":   {Spec{Algorithm: LeakyBucket, Limit: 1, Window: time.Second, MaxWait: time.Millisecond + 1}, "max_wait"},
		"max_wait of a bucket":      {Spec{Limit: 1, Window: time.Second, MaxWait: time.Second}, "max_wait"},
		"queue below 0":             {Spec{Algorithm: LeakyBucket, Limit: 1, Window: time.Second, Queue: -1}, "queue"},
		"quota without period":      {Spec{Algorithm: Quota, Limit: 1}, "period"},
		"quota of a year":           {Spec{Algorithm: Quota, Limit: 1, Period: "year"}, "period"},
		"quota length, no anchor":   {Spec{Algorithm: Quota, Limit: 1, Period: "30d"}, "anchor"},
		"quota too long":            {Spec{Algorithm: Quota, Limit: 1, Period: "401d", Anchor: "2026-01-31T00:00:00Z"}, "period"},
		"quota anchor is a date":    {Spec{Algorithm: Quota, Limit: 1, Period: "day", Anchor: "2026-01-31"}, "anchor"},
		"quota offset unsigned":     {Spec{Algorithm: Quota, Limit: 1, Period: "day", UTCOffset: "02:00"}, "utc_offset"},
		"quota offset too great":    {Spec{Algorithm: Quota, Limit: 1, Period: "day", UTCOffset: "+14:01"}, "utc_offset"},
		"quota offset too small":    {Spec{Algorithm: Quota, Limit: 1, Period: "day", UTCOffset: "-14:01"}, "utc_offset"},
		"quota anchor's offset":     {Spec{Algorithm: Quota, Limit: 1, Period: "day", Anchor: "2026-01-31T00:00:00+14:01"}, "anchor"},
		"offset of 60 minutes":      {Spec{Algorithm: Quota, Limit: 1, Period: "day", UTCOffset: "+02:60"}, "utc_offset"},
		"anchor of 60 minutes":      {Spec{Algorithm: Quota, Limit: 1, Period: "day", Anchor: "2026-01-31T00:00:00+02:60"}, "anchor"},
		"quota with window":         {Spec{Algorithm: Quota, Limit: 1, Period: "day", Window: time.Second}, "window"},
		"name with a space":         {Spec{Limit: 1, Window: time.Second, Name: "a b"}, "name"},
		"rule id too long":          {Spec{Limit: 1, Window: time.Second, Rule: strings.Repeat("r", 65)}, "rule"},
		"algorithm out of range":    {Spec{Limit: 1, Window: time.Second, Algorithm: 7}, "algorithm"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.spec.Compile()
			var wrong *LimitError
			if !errors.As(err, &wrong) {
				t.Fatalf("Compile() error = %v; want a *LimitError", err)
			}
			if wrong.Field != c.field || wrong.Problem == "" || wrong.Mend == "" {
				t.Errorf("error %+v; want field %s, with problem and mend", *wrong, c.field)
			}
		})
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	for _, c := range []struct {
		spec     Spec
		name     string
		max      int64
		window   time.Duration
		rate     string
		describe string
	}{
		{PerMinute(100), "token_bucket:1m", 100, time.Minute, "5/3", "token_bucket:1m 100 per 1m, capacity 100"},
		{Spec{RefillRate: "1.67"}, "token_bucket", 4, 3 * time.Second, "167/100", "token_bucket, capacity 4, 167/100 a second"},
		{Spec{RefillRate: "0.1"}, "token_bucket", 1, 10 * time.Second, "1/10", "token_bucket, capacity 1, 1/10 a second"},
		{Spec{RefillRate: "1.67", Capacity: 100, Window: time.Minute}, "token_bucket:1m", 100, time.Minute, "167/100", "token_bucket:1m, capacity 100, 167/100 a second"},
		{Spec{Algorithm: GCRA, Limit: 10, Window: time.Second, Capacity: 5}, "gcra:1s", 5, time.Second, "10", "gcra:1s 10 per 1s, capacity 5"},
		{Spec{Algorithm: LeakyBucket, Limit: 10, Window: time.Second, Queue: 20}, "leaky_bucket:1s", 21, time.Second, "10", "leaky_bucket:1s 10 per 1s, queue 20"},
		{Spec{Algorithm: LeakyBucket, Limit: 10, Window: time.Second, Queue: 20, MaxWait: time.Minute}, "leaky_bucket:1s", 21, time.Second, "10", "leaky_bucket:1s 10 per 1s, queue 20, waits at most 1m"},
		{Spec{Algorithm: FixedWindow, Limit: 9, Window: 90 * time.Minute}, "fixed_window:1h30m", 9, 90 * time.Minute, "", "fixed_window:1h30m 9 per 1h30m"},
		{Spec{Algorithm: Quota, Limit: 1000, Period: "720h", Anchor: "2026-01-31T00:00:00Z"}, "quota:30d", 1000, 720 * time.Hour, "", "quota:30d 1000 per 30d"},
		{Spec{Algorithm: Quota, Limit: 1000, Period: "month"}, "quota:month", 1000, 31 * 24 * time.Hour, "", "quota:month 1000 per month"},
	} {
		l, err := c.spec.Compile()
		if err != nil {
			t.Fatalf("%+v: %v", c.spec, err)
		}
		rate := ""
		if l.Rate() != nil {
			rate = l.Rate().RatString()
		}
		if l.Name() != c.name || l.Max() != c.max || l.Window() != c.window || rate != c.rate || l.String() != c.describe {
			t.Errorf("%+v: name %q max %d window %v rate %s, %q; want %+v", c.spec, l.Name(), l.Max(), l.Window(), rate, l.String(), c)
		}
	}
}

func TestShortFormIsNumberSlashUnit(t *testing.T) {
	for text, want := range map[string]Spec{"100/m": PerMinute(100), "1/s": PerSecond(1), "5/h": PerHour(5), "1000000000/d": PerDay(MaxLimit)} {
		if got, err := ParseSpec(text); err != nil || got != want {
			t.Errorf("ParseSpec(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "/m", "100", "100/", "0/m", "-1/m", "+1/m", "1.5/m", "1e3/m", "9223372036854775808/m", "100/y", "100/ms", "100/m/s", " 100/m", "1_0/m"} {
		if got, err := ParseSpec(text); err == nil {
			t.Errorf("ParseSpec(%q) = %+v; want an error", text, got)
		}
	}
}

func TestScopeAndShapeDecideWhoseStateItIs(t *testing.T) {
	base := Spec{Rule: "r", Name: "n", Limit: 10, Window: time.Second}
	change := func(f func(*Spec)) *compiledLimit {
		s := base
		f(&s)
		l, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return l.n
	}
	same := change(func(*Spec) {})
	for name, c := range map[string]struct {
		change func(*Spec)
		fresh  bool
	}{
		"limit":     {func(s *Spec) { s.Limit = 20 }, false},
		"capacity":  {func(s *Spec) { s.Capacity = 3 }, false},
		"window":    {func(s *Spec) { s.Window = time.Minute }, true},
		"algorithm": {func(s *Spec) { s.Algorithm = GCRA }, true},
		"name":      {func(s *Spec) { s.Name = "m" }, true},
		"rule":      {func(s *Spec) { s.Rule = "" }, true},
		"namespace": {func(s *Spec) { s.Namespace = "r" }, true},
	} {
		if fresh := change(c.change).salt != same.salt; fresh != c.fresh {
			t.Errorf("another %s: starts fresh %v; want %v", name, fresh, c.fresh)
		}
	}
}

// Stores read the shape at every check. A share of a limit has the shape of the limit.
func TestShapeIsMadeOnce(t *testing.T) {
	l := MustParseLimit("10/s")
	share, err := l.Share(3)
	if err != nil || share.Shape() != l.Shape() || l.Shape() != "token_bucket|1000000|0|" {
		t.Errorf("%q, %q, %v", l.Shape(), share.Shape(), err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = l.Shape() }); n != 0 {
		t.Errorf("Shape allocates %v times", n)
	}
}

func TestAnotherCalendarStartsFresh(t *testing.T) {
	quota := func(period, anchor, offset string) Limit {
		l, err := Spec{Algorithm: Quota, Name: "q", Limit: 1, Period: period, Anchor: anchor, UTCOffset: offset}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const first = "2026-01-05T00:00:00Z"
	base := quota("week", first, "")
	for name, c := range map[string]struct {
		limit Limit
		fresh bool
	}{
		"the same instant, spelt otherwise": {quota("week", "2026-01-05T00:00:00.000Z", "+00:00"), false},
		"an anchor one period later":        {quota("week", "2026-01-12T00:00:00Z", ""), true},
		"no anchor":                         {quota("week", "", ""), true},
		"a length as long":                  {quota("7d", first, ""), true},
		"another offset":                    {quota("week", first, "+01:00"), true},
	} {
		if fresh := c.limit.n.salt != base.n.salt; fresh != c.fresh {
			t.Errorf("%s: starts fresh %v; want %v", name, fresh, c.fresh)
		}
	}
}
