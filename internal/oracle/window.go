package oracle

// period is the state of a fixed window or a quota.
type period struct{ start, count int64 }

// window is a fixed window or a quota: a count for each window. startOf returns
// when the window of a time began.
type window struct {
	l       *limit
	startOf func(t int64) int64
	s       *period
}

func (w window) newest() int64 {
	if w.s == nil {
		return 0
	}
	return w.s.start
}

func (w window) count(t int64) int64 {
	if w.s == nil || w.startOf(t) != w.s.start {
		return 0
	}
	return w.s.count
}

func (w window) admits(t, cost int64) bool { return w.count(t)+cost <= w.l.max }

func (w window) remaining(t int64) int64 { return max(0, w.l.max-w.count(t)) }

func (w window) fresh(t int64) bool { return w.count(t) == 0 }

func (w window) charge(t, cost int64) any { return &period{w.startOf(t), w.count(t) + cost} }

// refund refunds in the current window only.
func (w window) refund(t, cost, at int64) any {
	if w.startOf(at) != w.startOf(t) || w.startOf(t) != w.s.start {
		return nil
	}
	return &period{w.s.start, max(0, w.s.count-cost)}
}

func (window) delay(int64) func(int64) bool { return nil }
