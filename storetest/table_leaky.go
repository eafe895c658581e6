package storetest

import (
	"time"

	"github.com/stintdev/stint"
)

func leakyTables() []table {
	return []table{leakyOfTenASecond(), leakyKeepsItsLevel(), leakyToldTheLongest(), leakyBoundsTheDelay(), leakyOfMaxWait()}
}

func leakyOf(limit, queue int64) stint.Spec {
	return stint.Spec{Algorithm: stint.LeakyBucket, Limit: limit, Window: sec, Queue: queue}
}

func leakyOfTenASecond() table {
	return table{name: "leaky bucket of 10 a second, queue 2", spec: leakyOf(10, 2), rows: []row{
		take(0, 0, yes(3, 0, 0)),
		take(0, 1, yes(2, 100*ms, 100*ms)),
		take(0, 1, delayed(100*ms, 1, 200*ms, 100*ms)),
		take(0, 1, delayed(200*ms, 0, 300*ms, 100*ms)),
		take(0, 1, no(0, 100*ms, 300*ms, 100*ms)),
		take(0, 4, no(0, stint.Never, 300*ms, 100*ms)),
		take(99_999*us, 1, no(0, us, 200_001*us, us)),
		take(100*ms, 1, delayed(200*ms, 0, 300*ms, 100*ms)),
		take(100*ms, 0, delayed(300*ms, 0, 300*ms, 100*ms)),
		take(50*ms, 1, no(0, 150*ms, 350*ms, 150*ms)).at(100 * ms),
		back(200*ms, 1, 100*ms, yes(1, 200*ms, 100*ms)), // the place of the taken unit has been handed out
		take(150*ms, 1, no(0, 50*ms, 250*ms, 50*ms)),    // the refund moved nothing
		take(200*ms, 1, delayed(200*ms, 0, 300*ms, 100*ms)),
	}}
}

func leakyKeepsItsLevel() table {
	return table{name: "leaky bucket keeps its level", spec: leakyOf(10, 2), rows: []row{
		take(0, 3, yes(0, 300*ms, 100*ms)),
		change(leakyOf(10, 0)),
		take(0, 0, delayed(300*ms, 0, 300*ms, 300*ms)),
		take(0, 1, no(0, 300*ms, 300*ms, 300*ms)),
		take(0, 2, no(0, stint.Never, 300*ms, 300*ms)),
		change(leakyOf(10, 4)),
		take(0, 2, delayed(300*ms, 0, 500*ms, 100*ms)),
		change(leakyOf(20, 4)),
		take(0, 1, no(0, 50*ms, 250*ms, 50*ms)),
		take(100*ms, 2, delayed(150*ms, 0, 250*ms, 50*ms)), // 5 − 2 at the new rate
	}}
}

// The level takes 400 million weeks to fall, which is reported as 2^53 − 1 µs.
func leakyToldTheLongest() table {
	const longest = (1<<53 - 1) * us
	const week = 7 * day
	return table{name: "leaky bucket with the longest wait", spec: stint.Spec{Algorithm: stint.LeakyBucket, Limit: 100_000, Window: week, Queue: 399_999_999}, rows: []row{
		take(0, 400_000_000, yes(0, 4000*week, 6_048*ms)),
		change(stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1, Window: week, Queue: 9}),
		take(0, 1, no(0, longest, longest, longest)),
		take(-sec, 1, no(0, longest, longest, longest)).at(0),
		take(-sec, 0, delayed(longest, 0, longest, longest)).at(0),
	}}
}

// A claim that cannot use the delay is refused and charges nothing. Its retry
// time is how long until the delay is short enough.
func leakyBoundsTheDelay() table {
	return table{name: "leaky bucket refuses delays beyond the claim's", spec: leakyOf(10, 4), rows: []row{
		take(0, 1, yes(1, 100*ms, 50*ms)).within(150 * ms), // the place at 100 ms remains, that at 200 ms does not
		take(0, 2, delayed(100*ms, 0, 300*ms, 150*ms)).within(150 * ms),
		take(0, 1, no(0, 150*ms, 300*ms, 150*ms)).within(150 * ms),
		take(0, 1, no(0, 300*ms, 300*ms, 300*ms)).within(-1), // no waiting at all
		take(0, 1, no(0, 300*ms, 300*ms, 300*ms)).within(999 * time.Nanosecond),
		take(0, 0, delayed(300*ms, 0, 300*ms, 150*ms)).within(150 * ms), // a peek is always allowed
		take(0, 6, no(0, stint.Never, 300*ms, 150*ms)).within(150 * ms),
		take(0, 5, no(1, 300*ms, 300*ms, 100*ms)).within(300 * ms), // denied for lack of room
		take(150*ms-us, 1, no(0, us, 150*ms+us, us)).within(150 * ms),
		take(150*ms, 1, delayed(150*ms, 0, 250*ms, 100*ms)).within(150 * ms),
		take(100*ms, 1, no(0, 150*ms, 300*ms, 150*ms)).at(150 * ms).within(150 * ms), // the delay counts the gap
		take(150*ms, 1, delayed(250*ms, 1, 350*ms, 50*ms)),
		take(500*ms, 1, yes(0, 100*ms, 100*ms)).within(-1),
		take(599_999*us, 1, no(0, us, us, us)).within(-1),
		take(600*ms, 5, yes(0, 500*ms, 500*ms)).within(-1),
	}}
}

func leakyOfMaxWait() table {
	spec := leakyOf(10, 9)
	spec.MaxWait = 250 * ms
	long := spec
	long.MaxWait = 350 * ms
	return table{name: "leaky bucket that waits at most 250 ms", spec: spec, rows: []row{
		take(0, 0, yes(3, 0, 0)),
		take(0, 1, yes(2, 100*ms, 50*ms)),
		take(0, 2, delayed(100*ms, 0, 300*ms, 50*ms)),
		take(0, 1, no(0, 50*ms, 300*ms, 50*ms)),
		take(0, 1, no(0, 200*ms, 300*ms, 200*ms)).within(100 * ms), // the lesser of the two delays holds
		take(0, 1, no(0, 50*ms, 300*ms, 50*ms)).within(sec),
		take(50*ms-us, 1, no(0, us, 250*ms+us, us)),
		change(long),
		take(0, 0, delayed(300*ms, 1, 300*ms, 50*ms)),
		take(0, 1, delayed(300*ms, 0, 400*ms, 50*ms)),
		change(spec),
		take(150*ms, 7, delayed(250*ms, 0, 950*ms, 700*ms)), // its own cost does not delay it
	}}
}
