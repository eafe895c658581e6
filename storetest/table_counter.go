package storetest

import "github.com/stintdev/stint"

func counterTables() []table {
	return []table{counterOfTwoWindows(), counterTakesBack(), counterKeepsItsCounts(), counterOfFiveBuckets()}
}

func counterOf(limit int64, buckets int) stint.Spec {
	return stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: limit, Window: 10 * sec, Buckets: buckets}
}

func counterOfTwoWindows() table {
	return table{name: "sliding counter of 10 in 10 s", spec: counterOf(10, 0), rows: []row{
		take(9*sec, 0, yes(10, 0, 0)),
		take(9*sec, 10, yes(0, 11*sec, 2*sec)),
		take(9*sec, 11, no(0, stint.Never, 11*sec, 2*sec)),
		take(9_999_999*us, 1, no(0, 1_000_001*us, 10_000_001*us, 1_000_001*us)),
		take(10*sec, 1, no(0, 1*sec, 10*sec, 1*sec)),
		take(10_999_999*us, 1, no(0, us, 9_000_001*us, us)),
		take(11*sec, 1, yes(0, 19*sec, 1*sec)), // 10 · 0.9 + 1
		take(11*sec, 10, no(0, 19*sec, 19*sec, 1*sec)),
		take(15*sec, 4, yes(0, 15*sec, 1*sec)), // 10 · 0.5 + 5
		take(20*sec, 0, yes(5, 10*sec, 2*sec)), // 5 · 1
		take(12*sec, 0, yes(0, 18*sec, 4*sec)), // 10 · 0.8 + 5: over the limit
		take(5*sec, 0, yes(0, 25*sec, 11*sec)).at(10 * sec),
		take(5*sec, 1, no(0, 11*sec, 25*sec, 11*sec)).at(10 * sec),
		take(15_999_999*us, 1, no(0, us, 14_000_001*us, us)),
		take(16*sec, 1, yes(0, 14*sec, 1*sec)),
		more(20*sec, 1, 9, granted(3, 0, 20*sec, 1_666_667*us)), // 6 · 1, then 4 taken
		take(29_999_999*us, 6, no(5, us, 10_000_001*us, us)),
		take(30*sec, 6, yes(0, 20*sec, 2_500*ms)),
	}}
}

func counterTakesBack() table {
	return table{name: "sliding counter takes back", spec: counterOf(10, 1), rows: []row{
		backNow(9*sec, 1, yes(10, 0, 0)),
		take(9*sec, 10, yes(0, 11*sec, 2*sec)),
		take(15*sec, 5, yes(0, 15*sec, 1*sec)),
		back(16*sec, 4, 15*sec, yes(5, 14*sec, 1*sec)),       // 10 · 0.4 + 1
		back(16*sec, 3, 9*sec, yes(6, 14*sec, 1_142_858*us)), // 7 · 0.4 + 1
		back(20*sec, 3, 9*sec, yes(9, 10*sec, 10*sec)),       // without weight by now
		take(17*sec, 0, yes(6, 13*sec, 142_858*us)),          // 7 · 0.3 + 1: it took nothing
		back(20*sec, 3, 21*sec, yes(9, 10*sec, 10*sec)),      // of a bucket in the future
		back(20*sec, 9, 15*sec, yes(10, 0, 0)),
	}}
}

func counterKeepsItsCounts() table {
	return table{name: "sliding counter keeps its counts", spec: counterOf(10, 1), rows: []row{
		take(0, 10, yes(0, 20*sec, 11*sec)),
		change(counterOf(20, 1)),
		take(0, 5, yes(5, 20*sec, 10_666_667*us)), // 15 · (1 − 1/15)
		change(counterOf(6, 1)),
		take(0, 1, no(0, 16_666_667*us, 20*sec, 16_666_667*us)), // 15 · (1 − x) ≤ 5
		take(16_666_666*us, 1, no(0, us, 3_333_334*us, us)),
		take(16_666_667*us, 1, yes(0, 13_333_333*us, 666_667*us)),
		change(counterOf(6, 2)),
		take(16_666_667*us, 6, yes(0, 13_333_333*us, 9_166_667*us)), // other buckets are another limit
	}}
}

func counterOfFiveBuckets() table {
	return table{name: "sliding counter of five buckets", spec: counterOf(10, 5), rows: []row{
		take(0, 3, yes(7, 12*sec, 10_666_667*us)),
		take(4*sec, 7, yes(0, 12*sec, 6_666_667*us)),
		take(4*sec, 1, no(0, 6_666_667*us, 12*sec, 6_666_667*us)),
		take(10_666_666*us, 1, no(0, us, 5_333_334*us, us)),
		take(10_666_667*us, 1, yes(0, 11_333_333*us, 666_667*us)), // 3 · ⅔ + 7 + 1
		take(12*sec, 0, yes(2, 10*sec, 2_285_715*us)),
		take(9*sec, 1, no(0, 2_333_334*us, 13*sec, 2_333_334*us)).at(10 * sec),
		back(12*sec, 2, 5*sec, yes(4, 10*sec, 2_400*ms)), // from the bucket of 4 s to 6 s
		back(12*sec, 9, 1*sec, yes(4, 10*sec, 2_400*ms)), // without weight by now
		take(13*sec, 4, yes(0, 11*sec, 1_400*ms)),
		take(19*sec, 0, yes(5, 5*sec, 3*sec)),
		forget(19*sec, yes(10, 0, 0)),
	}}
}
