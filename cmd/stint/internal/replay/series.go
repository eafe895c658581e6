package replay

// series counts events over time, in steps of one length. It begins with steps of a second,
// and joins neighbouring steps whenever there would be more than mostSteps.
type series struct {
	lines int   // counts in a step
	step  int64 // length of a step, in microseconds
	start int64 // time of the first step, a multiple of step
	steps [][]int64
}

// mostSteps is the number of steps that a series has at most. Joining leaves at least a fifth
// of them.
const mostSteps = 240

const (
	oneSecond = 1_000_000
	day       = 86400 * oneSecond
)

// stepLengths are the lengths of a step, each a multiple of the one before. Beyond a day,
// lengths double.
var stepLengths = [...]int64{oneSecond, 2 * oneSecond, 10 * oneSecond, 30 * oneSecond, 60 * oneSecond, 120 * oneSecond, 600 * oneSecond, 1800 * oneSecond, 3600 * oneSecond, 7200 * oneSecond, 21600 * oneSecond, 43200 * oneSecond, day}

func newSeries(lines int) *series { return &series{lines: lines, step: stepLengths[0]} }

// at returns the counts of the step at a time.
func (s *series) at(t int64) []int64 {
	if i := (t - s.start) / s.step; t >= s.start && i < int64(len(s.steps)) {
		return s.steps[i]
	}
	s.include(t)
	return s.steps[(t-s.start)/s.step]
}

// include adds steps up to the time, which may be before the first.
func (s *series) include(t int64) {
	if len(s.steps) == 0 {
		s.start = t - t%s.step
	}
	for {
		first := min(s.start, t-t%s.step)
		last := max(s.start+int64(len(s.steps)-1)*s.step, t-t%s.step)
		if (last-first)/s.step < mostSteps {
			s.pad((s.start-first)/s.step, (last-first)/s.step+1)
			s.start = first
			return
		}
		s.join()
	}
}

// pad adds empty steps at the front, and then at the end up to the given number.
func (s *series) pad(front, total int64) {
	steps := make([][]int64, 0, total)
	for range front {
		steps = append(steps, make([]int64, s.lines))
	}
	steps = append(steps, s.steps...)
	for int64(len(steps)) < total {
		steps = append(steps, make([]int64, s.lines))
	}
	s.steps = steps
}

// join makes steps longer.
func (s *series) join() {
	old := *s
	s.step = nextStep(old.step)
	s.start, s.steps = old.start-old.start%s.step, nil
	for i, counts := range old.steps {
		at := (old.start + int64(i)*old.step - s.start) / s.step
		if at == int64(len(s.steps)) {
			s.steps = append(s.steps, make([]int64, s.lines))
		}
		for line, n := range counts {
			s.steps[at][line] += n
		}
	}
}

func nextStep(step int64) int64 {
	for _, longer := range stepLengths {
		if longer > step {
			return longer
		}
	}
	return 2 * step
}

// line returns one line of counts over time.
func (s *series) line(line int) []int64 {
	counts := make([]int64, len(s.steps))
	for i, step := range s.steps {
		counts[i] = step[line]
	}
	return counts
}
