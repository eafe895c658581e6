package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/http1client"
	"github.com/stintdev/stint/resilience/deadline"
)

// errAllDown is the error of a request that could not be sent to any upstream.
var errAllDown = errors.New("no upstream can be reached")

// errAllOpen is errAllDown if no upstream was tried because their circuits are open.
var errAllOpen = fmt.Errorf("%w: the circuits of all are open", errAllDown)

// roundTrip sends the request once, or again if the group has retries.
func (g *Gateway) roundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r)
	gr := x.route.group
	if gr.retries == nil {
		return g.sendOnce(r)
	}
	x.kept = true
	r, err := replayable(r)
	if err != nil {
		return nil, err
	}
	return gr.retries.RoundTrip(r)
}

// sendOnce sends the request to the first upstream that accepts a connection, and to no
// other. If no upstream is up, it tries one that is down.
func (g *Gateway) sendOnce(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r)
	gr := x.route.group
	var tried []*upstream
	for {
		u, p := gr.chooseAnother(g.now(), tried, x.used)
		if u == nil {
			return g.tryDown(r, gr, tried)
		}
		x.moveTo(u)
		a := &attempt{}
		res, err := a.send(r, u)
		g.report(r, u, &p, a, res, err)
		if err == nil || a.reached.Load() {
			g.reached(u)
			x.sentTo(u)
			return res, err
		}
		if !a.dialFailed.Load() || r.Context().Err() != nil {
			return nil, err // the request itself or its client is at fault
		}
		gr.metrics.Connect.Inc()
		if u.health.dialFailed(g.now(), p.failures) {
			g.options.Logger.Warn("upstream cannot be reached", "upstream", u.name, "error", reason(err))
		}
		tried = append(tried, u)
	}
}

// tryDown sends the request to an upstream that is down. A failure changes nothing; a
// connection ends the pause and triggers a health check.
func (g *Gateway) tryDown(r *http.Request, gr *group, tried []*upstream) (*http.Response, error) {
	u, p := gr.chooseDown(tried)
	if u == nil {
		return nil, gr.whyNone()
	}
	defer u.trials.Add(-1)
	x := exchangeOf(r)
	x.moveTo(u)
	a := &attempt{}
	res, err := a.send(r, u)
	g.report(r, u, &p, a, res, err)
	switch {
	case err == nil || a.reached.Load():
		g.reached(u)
		x.sentTo(u)
		u.requestCheck()
	case a.dialFailed.Load() && r.Context().Err() == nil:
		gr.metrics.Connect.Inc()
		err = errAllDown
	}
	return res, err
}

func (g *Gateway) reached(u *upstream) {
	if u.health.connected() {
		g.options.Logger.Info("upstream is back", "upstream", u.name)
	}
}

// attempt is one try of one upstream. The trace sets its fields from other goroutines,
// possibly after the try has ended.
type attempt struct {
	reached    atomic.Bool // a connection was made: something may have been sent
	dialFailed atomic.Bool // connecting failed for a reason other than the request itself
}

// send sends the request, and counts its answer.
func (a *attempt) send(r *http.Request, u *upstream) (*http.Response, error) {
	sent := time.Now()
	res, err := a.exchange(r, u)
	if err == nil {
		u.group.metrics.responded(res.StatusCode, sent)
	}
	return res, err
}

// exchange sends the request, together with the time that is left for it if it has a
// deadline, and records how far it came. With less than a millisecond left it sends
// nothing.
func (a *attempt) exchange(r *http.Request, u *upstream) (*http.Response, error) {
	x := exchangeOf(r)
	out, over := x.copyFor(r, u), u.group.wire.Load()
	t := deadline.Transport{Base: over.of(u, out)}
	if t.Base != over.plain {
		x.kept = true
		return t.RoundTrip(out.WithContext(httptrace.WithClientTrace(r.Context(), a.trace(x))))
	}
	res, err := t.RoundTrip(out)
	failed := err != nil && errors.As(err, new(*http1client.DialError))
	a.dialFailed.Store(failed)
	a.reached.Store(!failed && !errors.Is(err, deadline.ErrRefused))
	return res, err
}

// copyFor returns a copy of r for the upstream. An attempt that ends without reading the
// body leaves it open for the next one; the forwarder closes it in the end.
func (x *exchange) copyFor(r *http.Request, u *upstream) *http.Request {
	out := x.sent.copy(r)
	host := out.Host
	(&httputil.ProxyRequest{Out: out}).SetURL(u.target)
	if !u.upstreamHost {
		out.Host = host
	}
	if out.Body != nil {
		out.Body = io.NopCloser(out.Body)
	}
	return out
}

func (a *attempt) trace(x *exchange) *httptrace.ClientTrace {
	note := func(err error) {
		if err != nil {
			a.dialFailed.Store(true)
		}
	}
	return &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { a.reached.Store(true) },
		DNSDone:          func(i httptrace.DNSDoneInfo) { note(i.Err) },
		ConnectDone:      func(_, _ string, err error) { note(err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { note(err) },
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			x.inform(status, http.Header(h))
			return nil
		},
	}
}

// wholeSeconds rounds up, to at least 1.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}
