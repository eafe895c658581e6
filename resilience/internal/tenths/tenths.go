// Package tenths counts two kinds of events over a sliding window of time.
//
// The window is cut into ten parts. The oldest part expires as a whole, so the window
// looks back between nine and ten tenths of its length. Counting costs a few additions,
// and memory does not grow with the number of events.
package tenths

// Parts is how many parts a window has.
const Parts = 10

// Counts holds a count for each of the two kinds of events.
type Counts [2]int64

// Window holds the counts of the last ten parts. The zero value has counted nothing. It
// is not safe for concurrent use.
type Window struct {
	Sum    Counts // over all parts
	parts  [Parts]Counts
	newest int64 // number of the newest part
}

// Advance drops the parts that are too old once the part with this number is the current
// one. The numbers start at 0 or later; a number below the newest means the newest.
func (w *Window) Advance(number int64) {
	w.newest = max(w.newest, number-Parts)
	for w.newest < number {
		w.newest++
		oldest := &w.parts[w.newest%Parts]
		w.Sum[0] -= oldest[0]
		w.Sum[1] -= oldest[1]
		*oldest = Counts{}
	}
}

// Add counts an event in the current part.
func (w *Window) Add(kind int) {
	w.parts[w.newest%Parts][kind]++
	w.Sum[kind]++
}

// Remove removes the newest event of a kind. It does nothing if the window holds none.
func (w *Window) Remove(kind int) {
	for n := w.newest; n > w.newest-Parts && n >= 0; n-- {
		if count := &w.parts[n%Parts][kind]; *count > 0 {
			*count--
			w.Sum[kind]--
			return
		}
	}
}
