package topkeys

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// Shadows counts what rules in shadow mode would have denied, in a sketch of its own. The sketch
// exists once there is a rule in shadow mode, so a server without one has no memory for it. The
// zero value is ready for use.
type Shadows struct {
	sketch atomic.Pointer[Sketch]
	start  sync.Once
}

// Start begins to count. Calls after the first do nothing.
func (s *Shadows) Start() { s.start.Do(func() { s.sketch.Store(New(0)) }) }

// Top returns the keys that rules in shadow mode would have denied most often in a window.
func (s *Shadows) Top(w Window) Top {
	if sketch := s.sketch.Load(); sketch != nil {
		return sketch.Top(w, true)
	}
	return Top{Items: []Item{}, Since: time.Now()}
}

// EndInterval ends an interval of the given length, as that of a [Sketch].
func (s *Shadows) EndInterval(length time.Duration) {
	if sketch := s.sketch.Load(); sketch != nil {
		sketch.EndInterval(length)
	}
}

// count counts the claims of a rule in shadow mode, if one of them would be denied.
func (s *Shadows) count(claims []stint.Claim, out []stint.Decision) {
	sketch := s.sketch.Load()
	if sketch == nil || len(claims) == 0 || claims[0].Cost <= 0 || !claims[0].Limit.Valid() || !denies(claims, out) {
		return
	}
	if weight := sketch.weight.Load(); pick(int(weight)) == 0 {
		sketch.count(&claims[0], weight, denied)
	}
}
