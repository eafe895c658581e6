package deadline

import (
	"cmp"
	"net"
	"net/http"
	"time"
)

// Timeouts bound what a deadline does not, for clients and servers alike. A zero field
// takes its default. Off, like any value below 0, means no bound.
//
//	         in http.Client and its transport  in http.Server
//	Connect  dialling, and the TLS handshake   -
//	Header   -                                 reading a request's header
//	Request  waiting for a response's header   reading a whole request
//	Total    the whole call, body included     from a request's header to the
//	                                           end of its response
//	Idle     three quarters: a connection      a connection without a request
//	         without a request
//
// The client closes an idle connection before the server does, so that it does not send
// a request on a connection that is just being closed.
type Timeouts struct {
	Connect time.Duration // defaults to 3 s
	Header  time.Duration // defaults to 5 s
	Request time.Duration // defaults to 30 s
	Total   time.Duration // defaults to 60 s
	Idle    time.Duration // defaults to 90 s
}

// Off turns off one of the [Timeouts].
const Off = -1

func (t Timeouts) setDefaults() Timeouts {
	return Timeouts{
		Connect: cmp.Or(t.Connect, 3*time.Second),
		Header:  cmp.Or(t.Header, 5*time.Second),
		Request: cmp.Or(t.Request, 30*time.Second),
		Total:   cmp.Or(t.Total, time.Minute),
		Idle:    cmp.Or(t.Idle, 90*time.Second),
	}
}

// client returns the timeouts with defaults, in the form of an http.Client and its
// transport: there 0 means no bound. In an http.Server, a value below 0 does.
func (t Timeouts) client() Timeouts {
	t = t.setDefaults()
	for _, field := range []*time.Duration{&t.Connect, &t.Request, &t.Total, &t.Idle} {
		*field = max(0, *field)
	}
	return t
}

// Client returns a client with these timeouts. If transport is nil, the client uses
// [Timeouts.Transport]. To any other transport only Total applies.
func (t Timeouts) Client(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = t.Transport()
	}
	return &http.Client{Transport: transport, Timeout: t.client().Total}
}

// Transport returns a transport with these timeouts. Its other settings are those of
// http.DefaultTransport. An HTTP/2 connection that has been silent for the time of Request is
// pinged, and closed if it does not answer within the time of Connect.
func (t Timeouts) Transport() *http.Transport {
	t = t.client()
	dialer := &net.Dialer{Timeout: t.Connect, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   t.Connect,
		ResponseHeaderTimeout: t.Request,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       t.Idle / 4 * 3,
		MaxIdleConns:          100,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: t.Request, PingTimeout: t.Connect},
	}
}

// Server returns a server of a handler with these timeouts. Set its Addr, or call Serve
// with a listener.
func (t Timeouts) Server(h http.Handler) *http.Server {
	t = t.setDefaults()
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: t.Header,
		ReadTimeout:       t.Request,
		WriteTimeout:      t.Total,
		IdleTimeout:       t.Idle,
	}
}
