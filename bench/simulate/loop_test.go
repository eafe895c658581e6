package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestEventsComeInOrder(t *testing.T) {
	var l Loop
	type moment struct {
		at    time.Duration
		asked int
	}
	var seen []moment
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 1000 {
		at := time.Duration(r.IntN(100))
		l.At(at, func() { seen = append(seen, moment{l.Now(), n}) })
	}
	l.Run()
	if len(seen) != 1000 || !slices.IsSortedFunc(seen, func(a, b moment) int { return int(a.at-b.at)*1000 + a.asked - b.asked }) {
		t.Errorf("%d events: %v", len(seen), seen)
	}
}

func TestTasksTakeTurns(t *testing.T) {
	var l Loop
	var said []string
	var wake func()
	l.Go(0, func(task *Task) {
		said = append(said, "waits")
		task.Park(func(w func()) { wake = w })
		said = append(said, "woken at "+l.Now().String())
	})
	l.Go(time.Second, func(task *Task) {
		task.Sleep(time.Second)
		wake()
		said = append(said, "slept")
	})
	l.Run()
	if want := []string{"waits", "slept", "woken at 2s"}; !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}
