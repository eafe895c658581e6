// Package adminclient calls the admin API of a server, for the commands that change rules
// and keys.
//
// A [Client] sends a [Request] and returns the answer, or an [*Error] that says what the
// server refused and why. It never follows redirects, which could leak the token, and
// bounds the size of the answer.
package adminclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

// timeout bounds the wait for an answer. A server may evaluate new rules on some minutes
// of traffic before it publishes them.
const timeout = time.Minute

// maxAnswer bounds the size of an answer, in bytes. It is enough for ten thousand rules
// and their difference from another set.
const maxAnswer = 256 << 20

// Client calls one server. It is safe for concurrent use as long as its fields do not
// change.
type Client struct {
	// URL is the address of the server's admin listener.
	URL *url.URL
	// Token is sent if it is not empty.
	Token string
	// Author names the author of a change if no token does; may be empty.
	Author string
	// Transport sends requests. Nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// Request is one API request.
type Request struct {
	Method string
	Path   string // percent-encoded
	Query  url.Values
	// IfMatch is the expected tag of the object to change; empty matches any.
	IfMatch string
	// Comment is the reason for the audit log, without control characters.
	Comment string
	// Change marks a request that changes state. An error then reports if the outcome is
	// unknown.
	Change bool
	// Body is sent unchanged. Nil sends none.
	Body []byte
	// MaxAnswer bounds the size of the answer, in bytes. 0: 256 MiB.
	MaxAnswer int64
}

// Answer is the answer to a request.
type Answer struct {
	Body []byte
	Tag  string // entity tag of the state that was read or changed; may be empty
}

// Do sends the request. The error is an [*Error] if the server refuses; any other error
// means that no Stint server answered.
func (c *Client) Do(ctx context.Context, q Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var sent atomic.Bool
	a, err := c.do(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}), &q)
	refusal, refused := errors.AsType[*Error](err)
	if unknown := refused && refusal.Unknown; err != nil && (unknown || !refused) && q.Change && sent.Load() {
		err = fmt.Errorf("%w; the change may have taken effect or not, or in part (check with stint rules history, stint key peek or stint emergency status)", err)
	}
	return a, err
}

func (c *Client) do(ctx context.Context, q *Request) (Answer, error) {
	r, err := c.request(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	client := http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, cmp.Or(q.MaxAnswer, maxAnswer)))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("the answer of the server is incomplete: %w", err)
	case response.StatusCode != http.StatusOK:
		return Answer{}, refusal(response, body)
	}
	// Proxies that compress answers mark tags as weak. The server's tags identify the
	// content itself, so the mark is removed.
	return Answer{body, strings.TrimPrefix(response.Header.Get("ETag"), "W/")}, nil
}

// Object is an answer in JSON.
type Object interface {
	// member returns the name of a member that every such answer has.
	member() string
}

// Into is [Client.Do] for a JSON answer, which it also decodes into out.
func (c *Client) Into(ctx context.Context, q Request, out Object) (Answer, error) {
	a, err := c.Do(ctx, q)
	if err != nil {
		return a, err
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(a.Body, &members) != nil || members[out.member()] == nil || json.Unmarshal(a.Body, out) != nil {
		return a, errors.New(notStint)
	}
	return a, nil
}

func (c *Client) request(ctx context.Context, q *Request) (*http.Request, error) {
	target := c.URL.JoinPath(q.Path)
	target.RawQuery = q.Query.Encode()
	r, err := http.NewRequestWithContext(ctx, q.Method, target.String(), bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	for name, value := range map[string]string{"If-Match": q.IfMatch, "X-Stint-Comment": q.Comment, "X-Stint-Author": c.Author} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return r, nil
}

// InProcess is a transport to a handler of this process, for work on rules without a
// running server.
type InProcess struct{ Handler http.Handler }

// RoundTrip calls the handler.
func (p InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &bufferedResponse{header: http.Header{}, status: http.StatusOK}
	r.RequestURI = r.URL.RequestURI()
	p.Handler.ServeHTTP(w, r)
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Header: w.header, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}, nil
}

// bufferedResponse is a response in memory.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *bufferedResponse) Header() http.Header         { return r.header }
func (r *bufferedResponse) WriteHeader(status int)      { r.status = status }
func (r *bufferedResponse) Write(p []byte) (int, error) { return r.body.Write(p) }

// Error is a refusal by the server.
type Error struct {
	Status   int           `json:"-"`
	Code     string        `json:"code"`
	Message  string        `json:"message"`
	Problems rule.Problems `json:"problems"` // in rules; the file "body" is what was sent
	// Diff is what changed since the version in If-Match.
	Diff *Diff `json:"diff"`
	// Impact is what the change would deny among the requests of the last minutes.
	Impact *impact.Result `json:"impact"`
	// Unknown means that the change may have been made, or not, or in part.
	Unknown bool `json:"unknown"`
}

// The codes that callers distinguish.
const (
	CodeImpact       = "IMPACT"              // the change would deny too many requests
	CodePrecondition = "PRECONDITION_FAILED" // the object has changed in the meantime
)

func (e *Error) Error() string {
	return fmt.Sprintf("%d %s: %s%s", e.Status, http.StatusText(e.Status), e.Message, e.mend())
}

func (e *Error) mend() string {
	switch e.Status {
	case http.StatusUnauthorized:
		return " (put the token into STINT_TOKEN, or into a file for --token-file)"
	case http.StatusPreconditionFailed:
		return " (stint rules show prints what is in force)"
	}
	return ""
}

// Unwrap returns the mistakes in the rules, if there are any.
func (e *Error) Unwrap() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e.Problems
}

// notStint is the error for an answer that is not from a Stint server.
const notStint = "the answer is not from the admin listener of a stint server (give --server the address of --admin, by default http://127.0.0.1:6070)"

// refusal converts an answer other than 200 to an error.
func refusal(r *http.Response, body []byte) error {
	var b struct {
		Error *Error `json:"error"`
	}
	if to := r.Header.Get("Location"); to != "" {
		return fmt.Errorf("%s to %.200q: redirects are not followed, because they would carry the token elsewhere (give --server the final address)", r.Status, to)
	}
	if json.Unmarshal(body, &b) != nil || b.Error == nil || b.Error.Message == "" {
		return errors.New(r.Status + ": " + notStint)
	}
	b.Error.Status = r.StatusCode
	return b.Error
}
