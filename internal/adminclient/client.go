// Package adminclient asks the admin API of a server, for the commands that
// change rules and keys.
//
// A [Client] sends a [Request] and returns what was answered, or an [*Error]
// that says what the server refused and why. It never follows a redirection,
// which could carry the token elsewhere, and bounds what it reads.
package adminclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Timeout is how long a server has to answer. It may try rules on some minutes
// of traffic, and then publish them.
const Timeout = time.Minute

// maxAnswer bounds what is read of an answer, in bytes. It holds a set of ten
// thousand rules, and its difference from another.
const maxAnswer = 256 << 20

// Client speaks to one server. Its fields are not to change once it is used; it
// is safe for use by many goroutines at once then.
type Client struct {
	// URL is where the server's admin listener is.
	URL *url.URL
	// Token is sent when it is not empty.
	Token string
	// Author is who changes rules where no token tells it; may be empty.
	Author string
	// Transport sends requests. Nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// Request is one thing to ask.
type Request struct {
	Method string
	Path   string // escaped
	Query  url.Values
	// IfMatch is the tag of what is to be changed; empty: whatever is there.
	IfMatch string
	// Comment is why, for the record; without control characters.
	Comment string
	// Change says that it changes something. An error tells then where it is not
	// known whether that was done.
	Change bool
	// Body is sent as it is. Nil sends none.
	Body []byte
}

// Answer is what was asked for.
type Answer struct {
	Body []byte
	Tag  string // of what was read or changed; may be empty
}

// Do asks. The error is [*Error] when the server refuses; else there was no
// answer of a server of Stint.
func (c *Client) Do(ctx context.Context, q Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var sent atomic.Bool
	a, err := c.do(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}), &q)
	if _, refused := errors.AsType[*Error](err); err != nil && !refused && q.Change && sent.Load() {
		err = fmt.Errorf("%w; whether it was done is not known (stint rules history tells, or stint key peek)", err)
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
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("the answer breaks off: %w", err)
	case response.StatusCode != http.StatusOK:
		return Answer{}, refusal(response, body)
	}
	// What compresses answers on their way marks tags as weak. The server's are
	// of the content itself, and it knows them without the mark.
	return Answer{body, strings.TrimPrefix(response.Header.Get("ETag"), "W/")}, nil
}

// Object is an answer in JSON.
type Object interface {
	// member names what every such answer has, and others would not.
	member() string
}

// Into is [Client.Do] for an answer in JSON, which is read into out as well.
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
