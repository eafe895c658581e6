package retrybudget

// parts is how many parts a window has. The oldest leaves whole.
const parts = 10

// part is what was counted in one tenth of a window.
type part struct {
	requests int64
	retries  int64
}

// window is the parts of the last while, and their sum. Its zero value has
// counted nothing.
type window struct {
	parts  [parts]part // by number
	newest int64
	sum    struct{ requests, retries int64 }
}

// at returns the part of a number, after all that are then too old have left.
// Time does not run back, nor begin before 0: an older number is the newest.
func (w *window) at(number int64) *part {
	number = max(number, w.newest)
	for n := max(w.newest, number-parts) + 1; n <= number; n++ {
		w.renew(n)
	}
	w.newest = number
	return &w.parts[number%parts]
}

// renew puts a part in place of the one that leaves.
func (w *window) renew(number int64) {
	old := &w.parts[number%parts]
	w.sum.requests -= old.requests
	w.sum.retries -= old.retries
	*old = part{}
}

// takeBack takes back the newest retry.
func (w *window) takeBack() {
	for n := w.newest; n > w.newest-parts && n >= 0; n-- {
		if p := &w.parts[n%parts]; p.retries > 0 {
			p.retries--
			w.sum.retries--
			return
		}
	}
}
