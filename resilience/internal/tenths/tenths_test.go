package tenths

import "testing"

// Events expire with their part, and Remove takes the newest one.
func TestWindow(t *testing.T) {
	const asked, granted = 0, 1
	var w Window
	want := func(when string, sum Counts) {
		t.Helper()
		if w.Sum != sum {
			t.Errorf("%s: %v, want %v", when, w.Sum, sum)
		}
	}
	w.Remove(granted)
	want("nothing to remove", Counts{})
	w.Advance(0)
	w.Add(asked)
	w.Add(granted)
	w.Advance(5)
	w.Add(granted)
	want("two parts", Counts{1, 2})
	w.Advance(3) // a clock that goes back
	w.Add(asked)
	want("the newest part stays current", Counts{2, 2})
	w.Remove(granted)
	w.Advance(9)
	want("the removed event was that of part 5", Counts{2, 1})
	w.Advance(10)
	want("part 0 has expired", Counts{1, 0})
	w.Add(granted)
	w.Advance(1 << 60)
	want("after a leap", Counts{})
}
