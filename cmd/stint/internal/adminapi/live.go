package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
	for {
		frames, more := a.Live.After(last)
		began := a.now()
		for _, f := range frames {
			last = f.ID
			out.send(strconv.FormatInt(f.ID, 10), "second", f.Data)
		}
		if began.Sub(shown) >= nodesEvery {
			shown = began
			out.sendJSON("nodes", a.fleet.nodes(r.Context(), a.Rules, began))
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
// often as one does.
type fleet struct {
	mu    sync.Mutex
	asked time.Time // guarded by mu
	body  liveNodes // guarded by mu
}

// liveNodes are the nodes as a live view shows them.
type liveNodes struct {
	Nodes []ruleset.Node `json:"nodes"`
	// Error says why there are none.
	Error string `json:"error,omitempty"`
}

func (f *fleet) nodes(ctx context.Context, rules Rules, now time.Time) liveNodes {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := now.Sub(f.asked); age >= 0 && age < nodesEvery {
		return f.body
	}
	list, err := rules.Nodes(ctx)
	f.asked, f.body = now, liveNodes{Nodes: list}
	if err != nil {
		f.body = liveNodes{Nodes: []ruleset.Node{}, Error: "the source of the rules does not answer or fails"}
	}
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
	_ = control.SetReadDeadline(time.Time{}) // of the whole request; it would end the stream
	w.WriteHeader(http.StatusOK)
	out := &eventWriter{w: w, control: control}
	out.flush()
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
