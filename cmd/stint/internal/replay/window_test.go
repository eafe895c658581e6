package replay

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// byTheBook returns the order by definition: an event leaves the window when an
// event more than one span newer has been read, or at the end.
func byTheBook(read []pending, span int64) []pending {
	var out, held []pending
	letGo := func(before int64) {
		slices.SortFunc(held, func(a, b pending) int {
			return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.order, b.order))
		})
		for len(held) > 0 && held[0].t < before {
			out, held = append(out, held[0]), held[1:]
		}
	}
	var newest int64
	for _, p := range read {
		newest = max(newest, p.t)
		held = append(held, p)
		letGo(newest - span)
	}
	letGo(maxTime + 1)
	return out
}

// pendings returns random events whose times advance, jump, repeat and go back.
func pendings(t *rapid.T, span int64) (read []pending) {
	now := rapid.Int64Range(0, 5_000_000).Draw(t, "start")
	for i := range rapid.IntRange(0, 60).Draw(t, "events") {
		step := rapid.Int64Range(-2*span-1, 2*span+1)
		if rapid.Bool().Draw(t, "near") {
			step = rapid.Int64Range(-2, 3)
		}
		now = min(max(0, now+step.Draw(t, "step")), maxTime)
		read = append(read, pending{t: now, order: orderOf(0, int64(i+1))})
	}
	return read
}

func TestWindowOrdersByTheBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.SampledFrom([]int64{1, 2, 127, 128, 1000, 60_000_000}).Draw(t, "span")
		read := pendings(t, span)
		w := newWindow(span)
		var got []pending
		letGo := func(before int64) {
			for p := (pending{}); w.pop(before, &p); {
				got = append(got, p)
			}
		}
		var newest int64
		for _, p := range read {
			newest = max(newest, p.t)
			letGo(newest - span)
			w.push(p)
			letGo(newest - span)
		}
		letGo(maxTime + 1)
		if want := byTheBook(read, span); !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		if w.waiting != 0 || !w.first.empty() {
			t.Fatalf("holds %d events, and the first day is empty: %v", w.waiting, w.first.empty())
		}
	})
}

// Released slots are reused: memory is that of the events held at once.
func TestWindowHoldsOneSpan(t *testing.T) {
	w := newWindow(1000)
	var p pending
	for i := range int64(200_000) {
		for w.pop(i-1000, &p) {
		}
		w.push(pending{t: i - i%7, order: orderOf(0, i)}) // out of order within 7
	}
	held := cap(w.first.slots) + cap(w.first.heap) + cap(w.first.run.entries)
	for _, day := range append(w.spare, w.days[:]...) {
		held += cap(day)
	}
	if held > 20*1000 {
		t.Errorf("makes room for %d events when 1000 are held at once", held)
	}
}
