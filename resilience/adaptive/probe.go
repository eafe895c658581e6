package adaptive

// probe measures the latency of a server without its queue. It measures at the current
// limit, then at half of it, and keeps halving while that lowers latency.
type probe struct {
	running bool
	took    int     // windows so far
	limit   float64 // when the probe began
	latency float64 // latency at that limit
	lowest  float64 // limit at which calls still queued

	last     float64 // latency at the limit before; 0 at first
	settling int     // calls still to be answered that began before the last change of the limit
	windows  int     // number of windows measured at this limit
	refused  int     // windows at this limit whose calls all failed
	calls    int     // number of calls measured at this limit
	sum      float64 // sum of their latencies
	baseline float64 // the result; 0 if there is none
}

const (
	probeWindows = 3   // least number of windows measured at each limit
	probeCalls   = 50  // calls measured at each limit, at least: their mean is good to 15 % if latency is exponentially distributed
	probeRefused = 10  // windows of only failed calls that end the probe
	queueing     = 0.7 // share to which latency must fall to show queueing; halving the limit halves latency if all calls queued
)

// startProbe begins a probe at the current limit.
func startProbe(limit float64, w Window) probe {
	return probe{running: true, limit: limit, lowest: limit, settling: w.InFlight}
}

// next returns the limit for the next window. The probe ends with a baseline, or without
// one if the load has gone meanwhile or the server refuses.
func (p *probe) next(limit float64, w Window) float64 {
	p.took++
	if p.settling > 0 {
		p.settling -= w.Calls
		return limit
	}
	if w.Failures == w.Calls {
		p.refused++
	}
	if 2*w.InFlight < int(limit) || p.refused >= probeRefused {
		return p.end(p.limit)
	}
	p.add(w)
	if p.windows < probeWindows || p.calls < probeCalls {
		return limit
	}
	return p.judge(limit, w.InFlight)
}

func (p *probe) add(w Window) {
	answered := w.Calls - w.Failures
	p.windows++
	p.calls += answered
	p.sum += float64(w.Latency) * float64(answered)
}

// judge compares the latency at this limit with the latency at the last one, and halves
// the limit if that may lower latency further.
func (p *probe) judge(limit float64, inFlight int) float64 {
	latency, first := max(1, p.sum/float64(p.calls)), p.last == 0
	if first {
		p.latency = latency
	} else if latency > queueing*p.last {
		p.baseline = latency
		return p.end(limit)
	}
	p.lowest = limit
	if int(limit) <= 1 {
		p.baseline = latency
		return p.end(limit)
	}
	p.last, p.settling = latency, inFlight
	p.windows, p.refused, p.calls, p.sum = 0, 0, 0, 0
	return limit / 2
}

func (p *probe) end(limit float64) float64 {
	p.running = false
	return limit
}
