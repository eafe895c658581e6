package deadline

import (
	"net"
	"net/http"
	"time"
)

// Timeouts bound what a deadline does not, for clients and servers alike. Zero
// values take their defaults; Off, or anything below 0, bounds nothing.
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
// The client gives up an idle connection before the server does, so that it
// sends nothing into one that is just being closed.
type Timeouts struct {
	Connect time.Duration // defaults to 3 s
	Header  time.Duration // defaults to 5 s
	Request time.Duration // defaults to 30 s
	Total   time.Duration // defaults to 60 s
	Idle    time.Duration // defaults to 90 s
}

// Off as one of the [Timeouts] bounds nothing.
const Off = -1

func (t Timeouts) setDefaults() Timeouts {
	for _, f := range []struct {
		field     *time.Duration
		otherwise time.Duration
	}{
		{&t.Connect, 3 * time.Second},
		{&t.Header, 5 * time.Second},
		{&t.Request, 30 * time.Second},
		{&t.Total, time.Minute},
		{&t.Idle, 90 * time.Second},
	} {
		if *f.field == 0 {
			*f.field = f.otherwise
		}
	}
	return t
}

// client is complete as an http.Client and its transport have it, where 0
// bounds nothing. To an http.Server, only what is below 0 does so in each
// field.
func (t Timeouts) client() Timeouts {
	t = t.setDefaults()
	for _, field := range []*time.Duration{&t.Connect, &t.Header, &t.Request, &t.Total, &t.Idle} {
		*field = max(0, *field)
	}
	return t
}

// Client returns a client with these timeouts. A nil transport is one of
// [Timeouts.Transport]; to others only Total applies.
func (t Timeouts) Client(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = t.Transport()
	}
	return &http.Client{Transport: transport, Timeout: t.client().Total}
}

// Transport returns a transport with these timeouts, otherwise as
// http.DefaultTransport begins. An HTTP/2 connection that says nothing for as
// long as Request must answer a ping within Connect, or is closed.
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

// Server returns a server of a handler with these timeouts. Set its Addr, or
// serve on a listener.
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
