package simulate

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
)

// The overload: a server that can answer 400 requests a second gets 1,200 for a while.
const (
	Capacity  = 400 // requests a second that the server can answer
	Usual     = 200 // requests a second before and after the rush
	Rush      = 1200
	RushFrom  = 15 * time.Second
	RushTo    = 45 * time.Second
	OverAt    = 60 * time.Second // no request comes after that
	worth     = time.Second      // a later answer is useless
	service   = 50 * time.Millisecond
	workers   = int(Capacity * service / time.Second)
	refusing  = service / 5 // the cost of a refusal, for a server that has read the request
	callers   = 100         // callers that send equally many requests
	maxQueued = 40          // requests in the queue of a server that refuses
)

// Overload is the result of the requests.
type Overload struct {
	Asked, Good []int             // in each second, by the time of the request; good ones are answered in time
	Limit       []int             // limit of calls in flight at the end of each second; 0 without one
	latencies   [][]time.Duration // of the answers, by the second of the request
}

// Goodput returns how many requests a second were answered in time during the rush, from
// its sixth second on.
func (o *Overload) Goodput() float64 { return mean(o.Good[20:45]) }

// After returns the same for the ten seconds that begin five seconds after the rush.
func (o *Overload) After() float64 { return mean(o.Good[50:60]) }

func mean(n []int) (m float64) {
	for _, v := range n {
		m += float64(v) / float64(len(n))
	}
	return m
}

// P99 returns the 99th percentile of the latency of all answers.
func (o *Overload) P99() time.Duration { return p99(o.latencies) }

func p99(seconds [][]time.Duration) time.Duration {
	all := slices.Sorted(slices.Values(slices.Concat(seconds...)))
	if len(all) == 0 {
		return 0
	}
	return all[len(all)*99/100]
}

// Guarded plays the overload of a server behind a gate. gate gets the clock, and a
// function that returns how busy the server has been since its last call. Requests that
// the gate sheds cost the server nothing. A nil gate admits every request.
func Guarded(seed uint64, gate func(now func() time.Time, busy adaptive.Load) (adaptive.Gate, error)) (*Overload, error) {
	return theRush().guarded(seed, gate)
}

func (s scenario) guarded(seed uint64, gate func(now func() time.Time, busy adaptive.Load) (adaptive.Gate, error)) (*Overload, error) {
	r := s.start(seed)
	if gate != nil {
		g, err := gate(r.loop.Clock, r.load)
		if err != nil {
			return nil, err
		}
		r.gate = g
	}
	r.ask()
	r.watch()
	r.loop.Run()
	return &r.seen, nil
}

// Throttled plays the overload of a server that refuses requests when its queue is full,
// at a fifth of the cost of an answer. Each of its callers has a gate.
func Throttled(seed uint64, gate func(now func() time.Time, random func() float64) (adaptive.Gate, error)) (*Overload, error) {
	r := theRush().start(seed)
	r.refuses = true
	for range callers {
		if gate == nil {
			break
		}
		g, err := gate(r.loop.Clock, r.random.Float64)
		if err != nil {
			return nil, err
		}
		r.callers = append(r.callers, g)
	}
	r.ask()
	r.loop.Run()
	return &r.seen, nil
}

// scenario is a server and its load.
type scenario struct {
	workers int
	service func(at time.Duration) time.Duration // mean time to answer; the real one is random
	rate    func(at time.Duration) float64       // requests a second
	end     time.Duration                        // no request comes after that
}

// theRush returns the scenario of the pictures.
func theRush() scenario {
	return scenario{
		workers: workers,
		service: func(time.Duration) time.Duration { return service },
		rate: func(at time.Duration) float64 {
			if at >= RushFrom && at < RushTo {
				return Rush
			}
			return Usual
		},
		end: OverAt,
	}
}

func (s scenario) start(seed uint64) *rush {
	seconds := s.end / time.Second
	seen := Overload{Asked: make([]int, seconds), Good: make([]int, seconds), Limit: make([]int, seconds), latencies: make([][]time.Duration, seconds)}
	return &rush{scenario: s, random: rand.New(rand.NewPCG(seed, 0)), idle: s.workers, seen: seen}
}

type rush struct {
	scenario

	loop    Loop
	random  *rand.Rand
	seen    Overload
	gate    adaptive.Gate
	callers []adaptive.Gate
	refuses bool

	idle   int // workers without a request
	queue  []func()
	worked time.Duration // total work of all workers
	asked  time.Duration // value of worked at the last call of load
	askedT time.Duration
}

// gap returns a random time to the next request.
func (r *rush) gap(at time.Duration) time.Duration {
	return time.Duration(r.random.ExpFloat64() / r.rate(at) * float64(time.Second))
}

// ask schedules the requests.
func (r *rush) ask() {
	for at := r.gap(0); at < r.end; at += r.gap(at) {
		r.loop.Go(at, r.request)
	}
}

func (r *rush) request(t *Task) {
	start := r.loop.Now()
	second := int(start / time.Second)
	r.seen.Asked[second]++
	call, ok := r.enter()
	if !ok {
		return
	}
	answered := r.serve(t)
	took := r.loop.Now() - start
	call.End(outcomeOf(answered, took))
	if answered {
		r.seen.latencies[second] = append(r.seen.latencies[second], took)
	}
	if answered && took <= worth {
		r.seen.Good[second]++
	}
}

func (r *rush) enter() (adaptive.Call, bool) {
	gate := r.gate
	if len(r.callers) > 0 {
		gate = r.callers[r.random.IntN(len(r.callers))]
	}
	if gate == nil {
		return adaptive.Call{}, true
	}
	return gate.Begin()
}

func outcomeOf(answered bool, took time.Duration) adaptive.Outcome {
	if !answered || took > worth {
		return adaptive.Failure
	}
	return adaptive.Success
}

// serve lets a worker answer or refuse the request.
func (r *rush) serve(t *Task) (answered bool) {
	refused := r.refuses && len(r.queue) >= maxQueued
	if r.idle == 0 {
		t.Park(func(wake func()) { r.queue = append(r.queue, wake) })
	} else {
		r.idle--
	}
	work := time.Duration(r.random.ExpFloat64() * float64(r.service(r.loop.Now())))
	if refused {
		work = refusing
	}
	t.Sleep(work)
	r.worked += work
	if len(r.queue) == 0 {
		r.idle++
		return !refused
	}
	next := r.queue[0]
	r.queue = r.queue[1:]
	next()
	return !refused
}

// load returns how busy the workers have been since its last call.
func (r *rush) load() (float64, error) {
	now := r.loop.Now()
	busy := float64(r.worked-r.asked) / float64(r.workers) / max(1, float64(now-r.askedT))
	r.asked, r.askedT = r.worked, now
	return min(1, busy), nil
}

// watch records the limit at the end of every second.
func (r *rush) watch() {
	c, ok := r.gate.(*adaptive.Concurrency)
	if !ok {
		return
	}
	for s := range r.seen.Limit {
		r.loop.At(time.Duration(s+1)*time.Second-1, func() { r.seen.Limit[s] = c.Usage().Limit })
	}
}
