package retrybudget

// parts is how many parts a window has. The oldest part expires as a whole.
const parts = 10

// part holds the counts of one tenth of a window.
type part struct {
	requests int64
	retries  int64
}

// window holds the parts of the last Window and their sum. The zero value has counted
// nothing.
type window struct {
	parts  [parts]part // by number
	newest int64
	sum    struct{ requests, retries int64 }
}

// at returns the part with a number, after it has dropped the parts that are then too
// old. Time starts at 0 or later and does not go back: a number below the newest means
// the newest.
func (w *window) at(number int64) *part {
	number = max(number, w.newest)
	for n := max(w.newest, number-parts) + 1; n <= number; n++ {
		w.renew(n)
	}
	w.newest = number
	return &w.parts[number%parts]
}

// renew clears the oldest part for reuse under a new number.
func (w *window) renew(number int64) {
	old := &w.parts[number%parts]
	w.sum.requests -= old.requests
	w.sum.retries -= old.retries
	*old = part{}
}

// takeBack removes the newest retry.
func (w *window) takeBack() {
	for n := w.newest; n > w.newest-parts && n >= 0; n-- {
		if p := &w.parts[n%parts]; p.retries > 0 {
			p.retries--
			w.sum.retries--
			return
		}
	}
}
