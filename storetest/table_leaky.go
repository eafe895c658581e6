package storetest

import "github.com/stintdev/stint"

func leakyTables() []table {
	return []table{leakyOfTenASecond(), leakyKeepsItsLevel(), leakyToldTheLongest()}
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
		back(200*ms, 1, 100*ms, yes(1, 200*ms, 100*ms)), // its place has been handed out
		take(150*ms, 1, no(0, 50*ms, 250*ms, 50*ms)),    // and giving it back moved nothing
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

// A level that takes 400 million weeks to fall is told as 2^53 − 1 µs.
func leakyToldTheLongest() table {
	const longest = (1<<53 - 1) * us
	const week = 7 * day
	return table{name: "leaky bucket told the longest wait", spec: stint.Spec{Algorithm: stint.LeakyBucket, Limit: 100_000, Window: week, Queue: 399_999_999}, rows: []row{
		take(0, 400_000_000, yes(0, 4000*week, 6_048*ms)),
		change(stint.Spec{Algorithm: stint.LeakyBucket, Limit: 1, Window: week, Queue: 9}),
		take(0, 1, no(0, longest, longest, longest)),
		take(-sec, 1, no(0, longest, longest, longest)).at(0),
		take(-sec, 0, delayed(longest, 0, longest, longest)).at(0),
	}}
}
