package storetest

import (
	"time"

	"github.com/stintdev/stint"
)

func bucketTables() []table {
	return []table{
		bucketRefills(), bucketSlowerThanTheClock(), bucketWaitsForFractions(), bucketOfHundredAMinute(), bucketByRateAlone(),
		bucketKeepsItsTokens(), bucketKeepsItsFraction(), bucketTakesBack(), bucketRoundsTheRefundDown(),
		gcraOfBurstFive(), gcraOfThreeASecond(),
	}
}

func bucketRefills() table {
	return table{name: "token bucket refills two a second", spec: stint.Spec{Capacity: 10, RefillRate: "2"}, rows: []row{
		take(0, 0, yes(10, 0, 0)),
		take(0, 10, yes(0, 5*sec, 500*ms)),
		take(0, 0, yes(0, 5*sec, 500*ms)),
		take(0, 1, no(0, 500*ms, 5*sec, 500*ms)),
		take(0, 11, no(0, stint.Never, 5*sec, 500*ms)),
		take(499_999*us, 1, no(0, us, 4_500_001*us, us)),
		take(500*ms, 1, yes(0, 5*sec, 500*ms)),
		take(500*ms, 3, no(0, 1500*ms, 5*sec, 500*ms)),
		take(1750*ms, 0, yes(2, 3750*ms, 250*ms)),
		take(1_999_999*us, 3, no(2, us, 3_500_001*us, us)),
		take(2*sec, 3, yes(0, 5*sec, 500*ms)),
		take(1*sec, 1, no(0, 1500*ms, 6*sec, 1500*ms)).at(2 * sec),
		take(1*sec, 0, yes(0, 6*sec, 1500*ms)).at(2 * sec),
		take(3*sec, 1, yes(1, 4500*ms, 500*ms)),
		take(2*sec, 1, yes(0, 6*sec, 1500*ms)).at(3 * sec),
		more(5*sec, 1, 2, granted(2, 1, 4500*ms, 500*ms)),
		more(5*sec, 1, 9, yes(0, 5*sec, 500*ms)),
		more(6*sec, 0, 9, granted(2, 0, 5*sec, 500*ms)),
		more(6*sec, 1, 9, no(0, 500*ms, 5*sec, 500*ms)),
		forget(6*sec, yes(10, 0, 0)),
		take(6*sec, 1, yes(9, 500*ms, 500*ms)),
		take(time.Hour, 0, yes(10, 0, 0)),
	}}
}

// The bucket refills 0.3 micro-units a microsecond, so the fraction counts.
func bucketSlowerThanTheClock() table {
	return table{name: "token bucket of 0.3 a second", spec: stint.Spec{Capacity: 1, RefillRate: "0.3"}, rows: []row{
		take(0, 1, yes(0, 3_333_334*us, 3_333_334*us)),
		take(us, 1, no(0, 3_333_333*us, 3_333_333*us, 3_333_333*us)),
		take(2*us, 1, no(0, 3_333_332*us, 3_333_332*us, 3_333_332*us)),
		take(4*us, 1, no(0, 3_333_330*us, 3_333_330*us, 3_333_330*us)),
		take(3_333_333*us, 1, no(0, us, us, us)),
		take(3_333_334*us, 1, yes(0, 3_333_334*us, 3_333_334*us)),
	}}
}

// The rate of 1.67 a second is exactly 167/100 micro-units a microsecond, so
// nothing drifts.
func bucketWaitsForFractions() table {
	return table{name: "token bucket of 1.67 a second", spec: stint.Spec{Capacity: 100, RefillRate: "1.67"}, rows: []row{
		take(0, 100, yes(0, 59_880_240*us, 598_803*us)),
		take(598_802*us, 1, no(0, us, 59_281_438*us, us)),
		take(598_803*us, 1, yes(0, 59_880_239*us, 598_802*us)),   // 1.01 micro-units stay
		take(1_197_605*us, 1, yes(0, 59_880_240*us, 598_803*us)), // 0.35
		take(61_077_844*us, 0, yes(99, us, us)),                  // 99,999,999.… of 100,000,000
		take(61_077_845*us, 100, yes(0, 59_880_240*us, 598_803*us)),
	}}
}

func bucketOfHundredAMinute() table {
	return table{name: "token bucket of 100 a minute", spec: stint.PerMinute(100), rows: []row{
		take(0, 100, yes(0, time.Minute, 600*ms)),
		take(0, 60, no(0, 36*sec, time.Minute, 600*ms)),
		take(35_999_999*us, 60, no(59, us, 24_000_001*us, us)),
		take(36*sec, 60, yes(0, time.Minute, 600*ms)),
	}}
}

func bucketByRateAlone() table {
	return table{name: "token bucket by rate alone", spec: stint.Spec{RefillRate: "1.67"}, rows: []row{
		take(0, 4, yes(0, 2_395_210*us, 598_803*us)), // max(1, ⌈2 · 1.67⌉)
		change(stint.Spec{RefillRate: "0.1"}),
		take(0, 1, no(0, 10*sec, 10*sec, 10*sec)), // max(1, ⌈0.2⌉)
	}}
}

func bucketKeepsItsTokens() table {
	return table{name: "token bucket keeps its tokens", spec: stint.Spec{Capacity: 10, RefillRate: "2"}, rows: []row{
		take(0, 10, yes(0, 5*sec, 500*ms)),
		change(stint.Spec{Capacity: 20, RefillRate: "2"}),
		take(1*sec, 0, yes(2, 9*sec, 500*ms)),
		change(stint.Spec{Capacity: 20, RefillRate: "4"}),
		take(1*sec, 0, yes(4, 4*sec, 250*ms)), // the new rate counts from last on
		take(1*sec, 5, no(4, 250*ms, 4*sec, 250*ms)),
		change(stint.Spec{Capacity: 3, RefillRate: "1"}),
		take(1*sec, 1, yes(0, 3*sec, 1*sec)),
		take(1*sec, 4, no(0, stint.Never, 3*sec, 1*sec)),
		change(stint.Spec{Capacity: 100, RefillRate: "10"}),
		take(1*sec, 1, no(0, 100*ms, 10*sec, 100*ms)),
		take(2*sec, 1, yes(9, 9100*ms, 100*ms)),
		change(stint.Spec{Capacity: 4, RefillRate: "10"}),
		take(2*sec, 0, yes(4, 0, 0)), // capped; peeking keeps the nine
		change(stint.Spec{Capacity: 100, RefillRate: "10"}),
		take(2*sec, 0, yes(9, 9100*ms, 100*ms)),
	}}
}

// The fraction of 0.35 micro-units, f = 35 of Q = 100, is read as f = 4 of
// Q = 5 at 0.4 units a second.
func bucketKeepsItsFraction() table {
	return table{name: "token bucket keeps its fraction", spec: stint.Spec{Capacity: 100, RefillRate: "1.67"}, rows: []row{
		take(0, 100, yes(0, 59_880_240*us, 598_803*us)),
		take(598_803*us, 1, yes(0, 59_880_239*us, 598_802*us)),
		take(1_197_605*us, 1, yes(0, 59_880_240*us, 598_803*us)),
		change(stint.Spec{Capacity: 100, RefillRate: "0.4"}),
		take(1_197_605*us, 1, no(0, 2_499_998*us, 249_999_998*us, 2_499_998*us)),
		take(1_197_605*us+2_499_997*us, 1, no(0, us, 247_500_001*us, us)),
		take(1_197_605*us+2_499_998*us, 1, yes(0, 250*sec, 2500*ms)),
	}}
}

func bucketTakesBack() table {
	return table{name: "token bucket takes back", spec: stint.Spec{Capacity: 10, RefillRate: "2"}, rows: []row{
		backNow(0, 3, yes(10, 0, 0)),
		take(0, 10, yes(0, 5*sec, 500*ms)),
		back(1*sec, 5, 0, yes(5, 2500*ms, 500*ms)), // 2 refilled, and 5 − 2 given
		back(1*sec, 1, 0, yes(5, 2500*ms, 500*ms)), // refilled since
		backNow(1*sec, 1, yes(6, 2*sec, 500*ms)),
		back(1*sec, 1, 2*sec, yes(7, 1500*ms, 500*ms)), // a time in the future counts as now
		take(1*sec, 7, yes(0, 5*sec, 500*ms)),
		back(500*ms, 2, 1*sec, yes(2, 4500*ms, 1*sec)).at(1 * sec),
		backNow(1*sec, 100, yes(10, 0, 0)),
	}}
}

// 1.67 micro-units refilled in 1 µs count as 2 against the refund.
func bucketRoundsTheRefundDown() table {
	return table{name: "token bucket rounds a refund down", spec: stint.Spec{Capacity: 100, RefillRate: "1.67"}, rows: []row{
		take(0, 100, yes(0, 59_880_240*us, 598_803*us)),
		back(us, 1, 0, yes(0, 59_281_438*us, us)),        // 1.67 + 999,998
		take(2*us, 1, yes(0, 59_880_239*us, 598_802*us)), // 1.34 stay
	}}
}

func gcraOfBurstFive() table {
	return table{name: "gcra of burst 5", spec: stint.Spec{Algorithm: stint.GCRA, Limit: 10, Window: sec, Capacity: 5}, rows: []row{
		take(0, 6, no(5, stint.Never, 0, 0)),
		take(0, 5, yes(0, 500*ms, 100*ms)),
		take(0, 1, no(0, 100*ms, 500*ms, 100*ms)),
		take(99_999*us, 1, no(0, us, 400_001*us, us)),
		take(100*ms, 1, yes(0, 500*ms, 100*ms)),
		take(50*ms, 1, no(0, 150*ms, 550*ms, 150*ms)).at(100 * ms),
		back(300*ms, 4, 100*ms, yes(4, 100*ms, 100*ms)),
		take(400*ms, 5, yes(0, 500*ms, 100*ms)),
	}}
}

func gcraOfThreeASecond() table {
	return table{name: "gcra of 3 a second", spec: stint.Spec{Algorithm: stint.GCRA, Limit: 3, Window: sec}, rows: []row{
		take(0, 3, yes(0, sec, 333_334*us)),
		take(333_333*us, 1, no(0, us, 666_667*us, us)),
		take(333_334*us, 1, yes(0, sec, 333_333*us)), // two micro-units stay
		change(stint.Spec{Algorithm: stint.GCRA, Limit: 6, Window: sec}),
		take(333_334*us, 1, no(0, 166_667*us, sec, 166_667*us)),
		take(500_000*us, 1, no(0, us, 833_334*us, us)),
		take(500_001*us, 1, yes(0, sec, 166_666*us)),
	}}
}
