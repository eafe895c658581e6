package storetest

import "github.com/stintdev/stint"

func windowTables() []table {
	return []table{windowOfTenSeconds(), windowKeepsItsCount(), windowTakesBack()}
}

func tenSeconds(limit int64) stint.Spec {
	return stint.Spec{Algorithm: stint.FixedWindow, Limit: limit, Window: 10 * sec}
}

func windowOfTenSeconds() table {
	return table{name: "fixed window of 3 in 10 s", spec: tenSeconds(3), rows: []row{
		take(0, 0, yes(3, 0, 0)),
		take(1*sec, 2, yes(1, 9*sec, 9*sec)),
		take(1*sec, 2, no(1, 9*sec, 9*sec, 9*sec)),
		take(9_999_999*us, 2, no(1, us, us, us)),
		take(9_999_999*us, 1, yes(0, us, us)),
		take(10*sec, 3, yes(0, 10*sec, 10*sec)), // the seam: six in a microsecond
		take(10*sec, 4, no(0, stint.Never, 10*sec, 10*sec)),
		take(9*sec, 1, no(0, 11*sec, 11*sec, 11*sec)).at(10 * sec),
		take(-25*sec, 0, yes(0, 45*sec, 45*sec)).at(10 * sec),
		take(15*sec, 0, yes(0, 5*sec, 5*sec)),
		take(19_999_999*us, 1, no(0, us, us, us)),
		more(20*sec, 1, 1, granted(1, 1, 10*sec, 10*sec)),
		more(20*sec, 1, 7, yes(0, 10*sec, 10*sec)),
		forget(20*sec, yes(3, 0, 0)),
		take(20*sec, 3, yes(0, 10*sec, 10*sec)),
	}}
}

func windowKeepsItsCount() table {
	return table{name: "fixed window keeps its count", spec: tenSeconds(3), rows: []row{
		take(0, 3, yes(0, 10*sec, 10*sec)),
		change(tenSeconds(5)),
		take(5*sec, 1, yes(1, 5*sec, 5*sec)),
		take(5*sec, 2, no(1, 5*sec, 5*sec, 5*sec)),
		change(tenSeconds(2)),
		take(5*sec, 0, yes(0, 5*sec, 5*sec)), // four used of two
		take(9_999_999*us, 1, no(0, us, us, us)),
		take(10*sec, 2, yes(0, 10*sec, 10*sec)),
		change(stint.Spec{Algorithm: stint.FixedWindow, Limit: 2, Window: 20 * sec}),
		take(10*sec, 2, yes(0, 10*sec, 10*sec)), // another window is another limit
	}}
}

func windowTakesBack() table {
	return table{name: "fixed window takes back", spec: tenSeconds(3), rows: []row{
		backNow(0, 1, yes(3, 0, 0)),
		take(9*sec, 3, yes(0, 1*sec, 1*sec)),
		back(10*sec, 3, 9*sec, yes(3, 0, 0)), // of an earlier window
		take(10*sec, 3, yes(0, 10*sec, 10*sec)),
		back(12*sec, 1, 9_999_999*us, yes(0, 8*sec, 8*sec)),
		back(12*sec, 1, 10*sec, yes(1, 8*sec, 8*sec)),
		backNow(12*sec, 1, yes(2, 8*sec, 8*sec)),
		back(12*sec, 1, 20*sec, yes(2, 8*sec, 8*sec)), // of a window in the future
		back(12*sec, 1, 19_999_999*us, yes(3, 0, 0)),
		take(12*sec, 1, yes(2, 8*sec, 8*sec)),
		back(12*sec, 100, 11*sec, yes(3, 0, 0)),
	}}
}
