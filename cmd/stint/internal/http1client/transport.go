// Package http1client is a client of HTTP/1.1 for requests without a body, which a reverse proxy
// forwards most often. It is an [http.RoundTripper].
//
// [http.Transport] serves each connection with two goroutines of its own, so that one
// request costs several switches between goroutines. Here the caller's goroutine writes
// the request and reads the response. The price is that a connection is watched only while
// it has a request: a connection that the server has closed is noticed when the next
// request asks for it, by one call of the operating system.
//
// Use it for requests that [Supports] accepts, and http.Transport for all others. It
// promises what http.Transport does for them:
//
//   - Responses are read as by [http.ReadResponse], and by that function itself unless they
//     are plain (see plainResponse): chunked bodies, trailers, bodies that end with the
//     connection, and statuses without a body. A malformed response is an error.
//   - A request is sent again only if a connection that has been idle turns out to be dead
//     before the first byte of the response, and then once, over a new connection.
//     http.Transport tries one idle connection after the other: a request at which the
//     server breaks off would be sent as often as there are idle connections.
//   - The end of the request's context closes its connection, at most 50 ms later.
package http1client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/burst"
)

// Options configures a [Transport]. All fields but Informational are required.
type Options struct {
	Dial                  func(ctx context.Context, network, addr string) (net.Conn, error)
	ResponseHeaderTimeout time.Duration // from sending the request to the end of the response's header
	MaxResponseHeader     int64         // bytes of a response before its body
	MaxIdlePerHost        int           // idle connections kept for each host
	IdleTimeout           time.Duration // an idle connection is closed after it

	// Informational, unless nil, receives the responses 100 to 199. It is called from
	// RoundTrip.
	Informational func(r *http.Request, status int, header http.Header)
}

// Transport keeps connections and sends requests over them. Make one with [New]. It is safe
// for concurrent use.
type Transport struct {
	options Options
	idle    pool
	writes  *burst.Writes
}

// New returns a transport without connections.
func New(o Options) *Transport {
	return &Transport{options: o, idle: pool{most: o.MaxIdlePerHost, timeout: o.IdleTimeout}, writes: burst.New()}
}

// CloseIdleConnections closes the connections that serve no request.
func (t *Transport) CloseIdleConnections() { t.idle.closeAll() }

// DialError is the error of a request for which no connection could be made. Nothing was
// sent.
type DialError struct{ Err error }

func (e *DialError) Error() string { return e.Err.Error() }
func (e *DialError) Unwrap() error { return e.Err }

// RoundTrip implements [http.RoundTripper] for requests that [Supports] accepts.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for again := false; ; again = true {
		if r.Context().Err() != nil {
			return nil, context.Cause(r.Context())
		}
		c, err := t.send(r, again)
		if err != nil {
			return nil, &DialError{err}
		}
		res, err := t.answer(c, r)
		switch {
		case err == nil:
			return res, nil
		case r.Context().Err() != nil:
			return nil, context.Cause(r.Context())
		case !c.reused || !errors.As(err, new(*noResponseError)):
			return nil, err
		}
	}
}

// send writes the request to an idle connection that still lives, unless a fresh one is asked
// for, or to a new one. It returns the connection.
func (t *Transport) send(r *http.Request, fresh bool) (*conn, error) {
	host := r.URL.Host
	for !fresh {
		c := t.idle.get(host)
		if c == nil {
			break
		}
		c.begin(r, t.options.ResponseHeaderTimeout)
		if c.writeIfAlive() {
			c.reused = true
			return c, nil
		}
		c.close()
	}
	addr := host
	if r.URL.Port() == "" {
		addr = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	raw, err := t.options.Dial(r.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := newConn(raw, host, t.writes)
	c.begin(r, t.options.ResponseHeaderTimeout)
	c.write()
	return c, nil
}

// noResponseError is the error of a connection that ended before the first byte of a
// response.
type noResponseError struct{ cause error }

func (e *noResponseError) Error() string {
	return "the connection ended before a response: " + e.cause.Error()
}
func (e *noResponseError) Unwrap() error { return e.cause }

// answer reads the header of the response. An error closes the connection.
func (t *Transport) answer(c *conn, r *http.Request) (*http.Response, error) {
	res, b, err := t.receive(c, r)
	if err != nil {
		c.unwatch()
		c.close()
		return nil, err
	}
	*b = body{inner: res.Body, conn: c, pool: &t.idle, request: r, keep: !res.Close, chunked: len(res.TransferEncoding) > 0}
	if res.Body == http.NoBody {
		b.endRead(io.EOF)
	} else {
		res.Body = b
	}
	return res, nil
}

// receive reads the header of the final response. It returns room for the body around its
// body.
func (t *Transport) receive(c *conn, r *http.Request) (*http.Response, *body, error) {
	c.left = t.options.MaxResponseHeader
	if _, err := c.reader.Peek(1); err != nil {
		if isTimeout(err) {
			return nil, nil, err
		}
		return nil, nil, &noResponseError{err}
	}
	if res := plainResponse(c.reader, &c.heads, r); res != nil {
		c.left = math.MaxInt64
		return &res.Response, &res.body, nil
	}
	for {
		res, err := http.ReadResponse(c.reader, r)
		switch {
		case err != nil && c.left <= 0:
			return nil, nil, fmt.Errorf("the header of the response exceeds %d bytes", t.options.MaxResponseHeader)
		case err != nil:
			return nil, nil, err
		case res.StatusCode == http.StatusSwitchingProtocols:
			return nil, nil, errors.New("the server switches to a protocol that the request did not ask for")
		case res.StatusCode >= http.StatusOK || res.StatusCode < http.StatusContinue:
			c.left = math.MaxInt64
			return res, &body{}, nil
		case t.options.Informational != nil:
			t.options.Informational(r, res.StatusCode, res.Header)
			c.left = t.options.MaxResponseHeader
		}
	}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
