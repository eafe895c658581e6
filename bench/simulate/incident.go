package simulate

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retry"
	"github.com/stintdev/stint/resilience/retrybudget"
)

// The incident: a server that works, fails for 30 s, and works again.
const (
	Clients  = 1000             // each sends one request a second on average, at random moments
	Fails    = 20 * time.Second // when the server starts to fail
	Recovers = 50 * time.Second // when the server works again
	Ends     = 80 * time.Second // no request begins after that
	patience = 10 * time.Second // time after which a caller gives up
	latency  = 20 * time.Millisecond
)

// Behavior says how clients retry.
type Behavior struct {
	Jitter     retry.Jitter
	Budget     bool       // each client has its own, a tenth of its requests
	Breaker    bool       // each client has its own, which opens after three consecutive failures
	RetryAfter RetryAfter // the Retry-After of the failing server
	Respected  bool       // whether clients respect it
}

// RetryAfter selects the Retry-After of a failing server.
type RetryAfter uint8

// The values of [RetryAfter].
const (
	Fixed  RetryAfter = iota // Retry-After: 5 in every response
	Moment                   // Retry-After: the time until it works again, the same moment for all clients
)

// String returns the value in lower case: "fixed".
func (r RetryAfter) String() string {
	names := [...]string{"fixed", "moment"}
	if int(r) >= len(names) {
		return "unknown"
	}
	return names[r]
}

// Incident holds what the server received.
type Incident struct {
	Requests int // requests that began while the server failed
	Attempts int // attempts sent to the server while it failed
	Answered int // requests that succeeded in the end
	All      int // all requests of the run
	tenths   [900]int
}

// Amplification returns the number of attempts per request while the server failed.
func (i *Incident) Amplification() float64 { return float64(i.Attempts) / float64(i.Requests) }

// PerSecond returns the number of attempts in each second.
func (i *Incident) PerSecond() (n []int) {
	for t := time.Duration(0); t < Ends; t += time.Second {
		n = append(n, i.second(t))
	}
	return n
}

// second returns the number of attempts in the second that begins at from.
func (i *Incident) second(from time.Duration) (n int) {
	tenth := int(from / (time.Second / 10))
	for _, more := range i.tenths[tenth : tenth+10] {
		n += more
	}
	return n
}

// Wave returns the most attempts in any second after the recovery, searched in steps of a
// tenth of a second, and the mean of these seconds.
func (i *Incident) Wave() (peak int, mean float64) {
	for t := Recovers; t <= Ends-time.Second; t += time.Second / 10 {
		peak = max(peak, i.second(t))
		mean += float64(i.second(t))
	}
	return peak, mean / (float64(Ends-Recovers-time.Second)/float64(time.Second/10) + 1)
}

// Play plays the incident.
func Play(m Behavior, seed uint64) (*Incident, error) {
	p := &play{behavior: m}
	for n := range uint64(Clients) {
		if err := p.join(rand.NewPCG(seed, n)); err != nil {
			return nil, err
		}
	}
	p.loop.Run()
	return &p.seen, nil
}

type play struct {
	loop     Loop
	behavior Behavior
	seen     Incident
}

// join adds a client that sends its requests.
func (p *play) join(source rand.Source) error {
	transport, err := p.transport(source)
	if err != nil {
		return err
	}
	gaps := rand.New(source)
	for t := gap(gaps); t < Ends; t += gap(gaps) {
		p.loop.Go(t, func(task *Task) { p.request(task, transport) })
	}
	return nil
}

func gap(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(time.Second)) }

// transport returns a client as a program would make it, except for the clock.
func (p *play) transport(source rand.Source) (http.RoundTripper, error) {
	b, err := p.breaker()
	if err != nil {
		return nil, err
	}
	o := client.Options{
		Chain:    client.Chain{Breaker: b},
		Retry:    &retry.Options{Attempts: 20, Jitter: p.behavior.Jitter, Source: source, Clock: p.loop.Clock, Sleep: sleep},
		Classify: p.classify,
		Base:     p,
	}
	if p.behavior.Budget {
		if o.Retry.Budget, err = retrybudget.New(retrybudget.Options{PerSecond: retrybudget.NoShare, Clock: p.loop.Clock}); err != nil {
			return nil, err
		}
	}
	return client.New(o)
}

func (p *play) breaker() (*breaker.Breaker, error) {
	if !p.behavior.Breaker {
		return nil, nil //nolint:nilnil // a client without a breaker
	}
	return breaker.New(breaker.Options{ConsecutiveFailures: 3, Growth: 2, MaxOpenFor: 5 * time.Second, Clock: p.loop.Clock})
}

func (p *play) classify(resp *http.Response, err error, now time.Time) retry.Classification {
	v := retry.ClassifyHTTP(resp, err, now)
	if !p.behavior.Respected {
		v.After = 0
	}
	return v
}

func (p *play) request(task *Task, transport http.RoundTripper) {
	p.seen.All++
	if p.failing() {
		p.seen.Requests++
	}
	ctx := &life{context.Background(), task, p.loop.Now() + patience}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/", http.NoBody)
	if err != nil {
		return
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		p.seen.Answered++
	}
}

func (p *play) failing() bool { return p.loop.Now() >= Fails && p.loop.Now() < Recovers }

// RoundTrip is the server.
func (p *play) RoundTrip(req *http.Request) (*http.Response, error) {
	if tenth := int(p.loop.Now() / (time.Second / 10)); tenth < len(p.seen.tenths) {
		p.seen.tenths[tenth]++
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
	if p.failing() {
		p.seen.Attempts++
		resp.StatusCode = http.StatusServiceUnavailable
		resp.Header.Set("Retry-After", p.retryAfter())
	}
	taskOf(req.Context()).Sleep(latency)
	return resp, nil
}

func (p *play) retryAfter() string {
	if p.behavior.RetryAfter == Fixed {
		return "5"
	}
	left := (Recovers - p.loop.Now() + time.Second - 1) / time.Second
	return strconv.Itoa(int(left))
}
