package adaptive

// probe measures the latency of a server without its queue: first at the limit
// as it is, then at half of it, and so on for as long as that lowers latency.
type probe struct {
	running bool
	took    int     // windows so far
	limit   float64 // before the probe
	latency float64 // at that limit
	lowest  float64 // limit at which calls still queued

	last     float64 // latency at the limit before; 0 at first
	settling int     // calls to be answered until those from before the last step are gone
	windows  int     // measured at this limit
	refused  int     // windows at this limit whose calls were all dropped
	calls    int     // measured at this limit
	sum      float64 // of their latencies
	baseline float64 // the result; 0 without one
}

const (
	probeWindows = 3   // are measured at each limit, at least
	probeCalls   = 50  // as well: their mean is then good to 15 %, if latency varies as exponential
	probeRefused = 10  // windows without a latency end the probe: the server refuses
	queueing     = 0.7 // half the calls had less of a queue, if latency fell to this share: by half where they all queued
)

// startProbe begins at a limit that the gate has reached.
func startProbe(limit float64, w Window) probe {
	return probe{running: true, limit: limit, lowest: limit, settling: w.InFlight}
}

// next returns the limit for the next window. The probe ends with a baseline,
// or without one when the load has gone meanwhile or the server refuses.
func (p *probe) next(limit float64, w Window) float64 {
	p.took++
	if p.settling > 0 {
		p.settling -= w.Calls
		return limit
	}
	if w.Dropped == w.Calls {
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
	answered := w.Calls - w.Dropped
	p.windows++
	p.calls += answered
	p.sum += float64(w.Latency) * float64(answered)
}

// judge compares the latency at one limit with that at the last one, and
// halves the limit if that may lower it further.
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
