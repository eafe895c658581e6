package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/live"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

const (
	// mostViews bounds the live views that are open at once: those of viewers, and those of
	// the other roles. So no viewer keeps an operator from watching.
	mostViews = 16
	// nodesEvery is the interval at which a live view shows the nodes. All views share one
	// request to the source of the rules.
	nodesEvery = 5 * time.Second
	// tooSlow is the time in which a client has to accept what is new. A client that needs
	// longer is behind, and has to begin again.
	tooSlow = 30 * time.Second
)

// The reasons with which the server ends a live view.
const (
	endToken    = "token"    // the token is no longer valid
	endShutdown = "shutdown" // the server stops
	endSlow     = "slow"     // the client does not keep up
)

// live answers GET /v1/live with server-sent events: the last 15 minutes and then each second, and
// the nodes every five seconds. With Last-Event-ID it begins after that second, or with the first
// if the server is not as far.
func (a *API) live(r *request) (any, error) {
	if a.Live == nil {
		return nil, notFound("this server has no live view (ask a server that runs stint serve)")
	}
	last := int64(0)
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 0 {
			return nil, badRequest("Last-Event-ID: %.40q is not the id of an event (leave the header out)", text)
		}
		last = id
	}
	if r.Method == http.MethodHead { // an answer without a body would never end
		return events(func(*eventWriter) string { return "" }), nil
	}
	free, err := a.views.take(r.who.role)
	if err != nil {
		return nil, err
	}
	return events(func(out *eventWriter) string { defer free(); return a.sendLive(r, out, last) }), nil
}

// sendLive sends events until the client leaves, and returns why the server ends the view.
func (a *API) sendLive(r *request, out *eventWriter, last int64) (reason string) {
	var shown time.Time // when the nodes were sent last
	var point int64     // the time of the last point that was sent
	for {
		frames, more := a.Live.After(last)
		began := a.now()
		for _, f := range frames {
			last = f.ID
			out.send(strconv.FormatInt(f.ID, 10), "second", f.Data)
		}
		if began.Sub(shown) >= nodesEvery {
			shown = began
			nodes := a.fleet.nodes(r.Context(), a.Rules, began)
			nodes.Points = pointsAfter(nodes.Points, point)
			if n := len(nodes.Points); n > 0 {
				point = nodes.Points[n-1].Time
			}
			out.sendJSON("nodes", nodes)
		}
		switch out.flush(); {
		case out.err != nil || r.Context().Err() != nil:
			return ""
		case a.now().Sub(began) > tooSlow:
			return endSlow
		}
		select {
		case <-r.Context().Done():
			return ""
		case <-a.Live.Closed():
			return endShutdown
		case <-more:
		}
		if !a.stillMay(r) {
			return endToken
		}
	}
}

// stillMay reports whether the token of a request is still that of its sender.
func (a *API) stillMay(r *request) bool {
	if a.Tokens == nil {
		return true
	}
	found, ok := a.Tokens.find(bearer(r.Header))
	return ok && found.name == r.who.name && found.role == r.who.role
}

// views bounds the streams that are open at once.
type views struct {
	mu      sync.Mutex
	viewers int // guarded by mu
	others  int // guarded by mu
}

func (v *views) take(role Role) (free func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	open := &v.others
	if role == Viewer {
		open = &v.viewers
	}
	if *open >= mostViews {
		return nil, &apiError{Status: http.StatusServiceUnavailable, Code: codeBusy,
			Message: fmt.Sprintf("%d live views are open, the most that this server has at once for the role (close one, or try again later)", mostViews)}
	}
	*open++
	return func() { v.mu.Lock(); *open--; v.mu.Unlock() }, nil
}

// fleet remembers the nodes for nodesEvery, so that many views ask the source of the rules as
// often as one does. It also remembers what the nodes counted together in the last 15 minutes, as
// far as a view was open: without one this node does not ask for the others.
type fleet struct {
	mu     sync.Mutex
	asked  time.Time    // guarded by mu
	body   liveNodes    // guarded by mu
	points []fleetPoint // guarded by mu; the oldest first. Its elements do not change
}

// liveNodes are the nodes as a live view shows them.
type liveNodes struct {
	Nodes []ruleset.Node `json:"nodes"`
	// Points are what the nodes counted together, the oldest first: those that the view lacks.
	Points []fleetPoint `json:"points"`
	// Error says why there are none.
	Error string `json:"error,omitempty"`
}

// fleetPoint is what all nodes counted, in requests a second: the sum of what each one announced
// last, over the 5 seconds before its announcement.
type fleetPoint struct {
	Time  int64 `json:"time_ms"`
	Nodes int   `json:"nodes"` // the number of nodes that announced counts
	live.Rates
}

// mostPoints is the number of points in 15 minutes.
const mostPoints = int(live.Seconds * time.Second / nodesEvery)

// pointOf returns the sum of what nodes announced. ok is false if no node announced counts.
func pointOf(nodes []ruleset.Node, now time.Time) (p fleetPoint, ok bool) {
	p.Time = now.UnixMilli()
	for _, n := range nodes {
		if n.Traffic == nil || n.Traffic.Length <= 0 {
			continue
		}
		seconds := float64(n.Traffic.Length) / 1000
		p.Nodes++
		p.Allowed += float64(n.Traffic.Allowed) / seconds
		p.Denied += float64(n.Traffic.Denied) / seconds
		p.Shadow += float64(n.Traffic.Shadow) / seconds
		p.Degraded += float64(n.Traffic.Degraded) / seconds
	}
	return p, p.Nodes > 0
}

// pointsAfter returns the points after a time. If there are none as late, the clock was set back,
// and all are returned.
func pointsAfter(points []fleetPoint, at int64) []fleetPoint {
	if n := len(points); n == 0 || points[n-1].Time < at {
		return points
	}
	i := slices.IndexFunc(points, func(p fleetPoint) bool { return p.Time > at })
	if i < 0 {
		return []fleetPoint{}
	}
	return points[i:]
}

func (f *fleet) nodes(ctx context.Context, rules Rules, now time.Time) liveNodes {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := now.Sub(f.asked); age >= 0 && age < nodesEvery {
		return f.body
	}
	// The answer is for all views: it must not fail because the client of this one leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nodesTime)
	defer cancel()
	list, err := rules.Nodes(ctx)
	f.asked, f.body = now, liveNodes{Nodes: list}
	if err != nil {
		f.body = liveNodes{Nodes: []ruleset.Node{}, Error: "the source of the rules does not answer or fails"}
	}
	if p, ok := pointOf(f.body.Nodes, now); ok {
		f.points = append(slices.Clone(f.points[max(0, len(f.points)-mostPoints+1):]), p)
	}
	f.body.Points = append([]fleetPoint{}, f.points...)
	return f.body
}

// events is an answer of server-sent events. It sends them, and returns the reason with which
// the server ends the stream; empty if the client left, or if the last event says all.
type events func(out *eventWriter) (reason string)

// writeTo answers with the events.
func (e events) writeTo(w http.ResponseWriter) {
	setHeader(w, "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // or nginx would collect events
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})    // of the whole request; it would end the stream
	out := &eventWriter{w: w, control: control} // the first event sends the status
	if reason := e(out); reason != "" {
		out.sendJSON("end", struct {
			Reason string `json:"reason"`
		}{reason})
		out.flush()
	}
}

// eventWriter writes events. After an error it writes nothing.
type eventWriter struct {
	w       io.Writer
	control *http.ResponseController
	err     error
}

// send writes an event. data has no line break.
func (o *eventWriter) send(id, name string, data []byte) {
	if id != "" {
		o.write("id: " + id + "\n")
	}
	o.write("event: " + name + "\ndata: ")
	o.write(string(data) + "\n\n")
}

func (o *eventWriter) sendJSON(name string, value any) {
	data, err := json.Marshal(value)
	o.err = cmp.Or(o.err, err)
	o.send("", name, data)
}

func (o *eventWriter) write(text string) {
	if o.err == nil {
		_, o.err = io.WriteString(o.w, text)
	}
}

func (o *eventWriter) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}

// Live has the last seconds of this node. [live.Recorder] implements it.
type Live interface {
	After(id int64) ([]live.Frame, <-chan struct{})
	Closed() <-chan struct{}
	Rates(ids ...string) map[string]live.Rates
}
