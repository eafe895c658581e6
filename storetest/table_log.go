package storetest

import "github.com/stintdev/stint"

func logTables() []table { return []table{logOfThree(), logKeepsItsEntries(), logTakesBack()} }

func logOf(limit int64) stint.Spec {
	return stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: limit, Window: 10 * sec}
}

func logOfThree() table {
	return table{name: "sliding log of 3 in 10 s", spec: logOf(3), rows: []row{
		take(0, 0, yes(3, 0, 0)),
		take(0, 2, yes(1, 10*sec, 10*sec)),
		take(4*sec, 1, yes(0, 10*sec, 6*sec)),
		take(4*sec, 1, no(0, 6*sec, 10*sec, 6*sec)),
		take(4*sec, 3, no(0, 10*sec, 10*sec, 6*sec)),
		take(4*sec, 4, no(0, stint.Never, 10*sec, 6*sec)),
		take(9_999_999*us, 1, no(0, us, 4_000_001*us, us)),
		take(10*sec, 0, yes(2, 4*sec, 4*sec)), // the log excludes a unit when it is ten seconds old
		take(10*sec, 2, yes(0, 10*sec, 4*sec)),
		take(8*sec, 1, no(0, 6*sec, 12*sec, 6*sec)).at(10 * sec),
		take(13_999_999*us, 1, no(0, us, 6_000_001*us, us)),
		more(14*sec, 1, 5, yes(0, 10*sec, 6*sec)),
		more(20*sec, 1, 5, granted(1, 0, 10*sec, 4*sec)),
		forget(20*sec, yes(3, 0, 0)),
	}}
}

func logKeepsItsEntries() table {
	return table{name: "sliding log keeps its entries", spec: logOf(3), rows: []row{
		take(0, 1, yes(2, 10*sec, 10*sec)),
		take(6*sec, 2, yes(0, 10*sec, 4*sec)),
		change(logOf(4)),
		take(6*sec, 1, yes(0, 10*sec, 4*sec)),
		change(logOf(2)),
		take(6*sec, 0, yes(0, 10*sec, 10*sec)), // four of two: three must leave
		take(6*sec, 1, no(0, 10*sec, 10*sec, 10*sec)),
		take(15_999_999*us, 1, no(0, us, us, us)),
		take(16*sec, 2, yes(0, 10*sec, 10*sec)),
	}}
}

func logTakesBack() table {
	return table{name: "sliding log takes back", spec: logOf(3), rows: []row{
		backNow(0, 1, yes(3, 0, 0)),
		take(0, 1, yes(2, 10*sec, 10*sec)),
		take(4*sec, 2, yes(0, 10*sec, 6*sec)),
		back(5*sec, 1, 3_999_999*us, yes(0, 9*sec, 5*sec)), // exactly at, or nothing
		back(5*sec, 1, 6*sec, yes(0, 9*sec, 5*sec)),        // at a time in the future
		backNow(5*sec, 1, yes(0, 9*sec, 5*sec)),
		back(5*sec, 1, 4*sec, yes(1, 9*sec, 5*sec)),
		back(5*sec, 7, 4*sec, yes(2, 5*sec, 5*sec)),
		take(5*sec, 1, yes(1, 10*sec, 5*sec)),
		back(10*sec, 1, 0, yes(2, 5*sec, 5*sec)), // the unit has left the window
		back(10*sec, 1, 5*sec, yes(3, 0, 0)),
	}}
}
