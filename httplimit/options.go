package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// Options says how requests are counted and answered. The zero value counts by the
// address of the connection's peer, and answers denials with headers and a body.
type Options struct {
	// How requests are counted. These fields are for [Limit] and [NewCounter]. A
	// [Decider] that is given to [New] counts by itself.

	// By names the attributes that identify a client, as [Request.Attribute] defines
	// them; together their values are the key. Unknown names are an error. A request
	// without one of the attributes is counted by ip instead; requests without an ip
	// share one key. A request that [Request.Refusal] refuses for one of the
	// attributes is answered 400. Defaults to ip.
	By []string
	// Key, if not nil, returns the key that a request is counted under. If it returns
	// "", By applies. The key is one part: it must be valid for [stint.ValidateKey],
	// or the request is answered 400. Keys of Key and of By never collide. An error
	// means that the request cannot be decided.
	Key func(r *Request) (string, error)
	// Parts replaces By and Key for a [stint.JointLimiter]: one part for each of its
	// limiters, in the order given to [stint.Join].
	Parts []Part
	// Cost returns how many units a request takes, at least 0; a request of 0 passes
	// uncounted, and one below 0 is answered 400. Defaults to 1.
	Cost func(r *Request) int64
	// IPv6Prefix is how many leading bits of an IPv6 address identify a client, 1 to
	// 128. Defaults to 64, because one customer often has a whole /64.
	IPv6Prefix int
	// Dialect chooses the header fields.
	Dialect Dialect
	// Jitter spreads the retries of clients that were denied at the same moment, from
	// 0 to 1; see [Answer]. Defaults to 0.
	Jitter float64

	// How requests are identified and answered. These fields are for [Limit] and [New].

	// Identity says how the client of a request is identified.
	Identity Identity
	// Trust lists the networks of proxies whose forwarding headers are believed, in
	// addition to those of Identity.Clients.
	Trust []netip.Prefix
	// OnDenied, if not nil, answers a request that is denied; [Answer.Status] says
	// why: 429, 403 or 503. The headers of [Answer.SetHeaders] are set. OnDenied
	// writes the response and returns false, or writes nothing and returns true to let
	// the request pass, unless that has a [Request.TokenError]. Defaults to
	// [Answer.WriteDenial].
	OnDenied func(w http.ResponseWriter, r *http.Request, a *Answer) (pass bool)
	// OnError, if not nil, answers a request that could not be decided, in the manner
	// of OnDenied. It cannot let a request pass that has a [Request.TokenError].
	// Defaults to [WriteError].
	OnError func(w http.ResponseWriter, r *http.Request, err error) (pass bool)
	// Logger gets the errors of requests that could not be decided through no fault of
	// the client. It gets at most one line in ten seconds for each [stint.Code], with
	// the number of errors since the last line. Nil logs nothing.
	Logger *slog.Logger
	// Clock returns the current time for headers, bodies and the log. Defaults to
	// time.Now.
	Clock func() time.Time
}

// Part says how the key for one limiter of a joint limiter is made. The fields are those
// of [Options].
type Part struct {
	By  []string
	Key func(r *Request) (string, error)
}

// Limiter is the limiters that can limit requests.
type Limiter interface {
	*stint.Limiter | *stint.JointLimiter
}

// refuseCounting returns an error if an option of a counter is set.
func (o *Options) refuseCounting() error {
	if o.By != nil || o.Key != nil || o.Parts != nil || o.Cost != nil || o.IPv6Prefix != 0 || o.Dialect != Standard || o.Jitter != 0 {
		return errors.New("the options By, Key, Parts, Cost, IPv6Prefix, Dialect and Jitter have no effect on a decider (set them in its NewCounter, write them in its rules, or use Limit)")
	}
	return nil
}

// checkCounter returns the error of the options of a counter.
func (o *Options) checkCounter() error {
	switch {
	case o.IPv6Prefix < 0 || o.IPv6Prefix > 128:
		return fmt.Errorf("the IPv6 prefix %d is no number of bits (use 1 to 128)", o.IPv6Prefix)
	case int(o.Dialect) >= len(dialectNames):
		return fmt.Errorf("%v is unknown (use one of the constants of Dialect)", o.Dialect)
	case !(o.Jitter >= 0 && o.Jitter <= 1):
		return fmt.Errorf("the jitter %v is no share (use 0 to 1)", o.Jitter)
	}
	return nil
}

// parts returns one part for each key of a request.
func (o *Options) parts(joint *stint.JointLimiter) ([]Part, error) {
	switch {
	case joint == nil && o.Parts != nil:
		return nil, errors.New("parts are for a joint limiter (set By or Key)")
	case joint == nil:
		return []Part{{o.By, o.Key}}, nil
	case o.By != nil || o.Key != nil:
		return nil, errors.New("a joint limiter has several keys (set Parts in place of By and Key)")
	case len(o.Parts) != joint.Keys():
		return nil, fmt.Errorf("there are %d parts for %d limiters (set one for each limiter, in the order given to Join)", len(o.Parts), joint.Keys())
	}
	return o.Parts, nil
}

// identity returns Identity with the proxies of Trust.
func (o *Options) identity() (Identity, error) {
	id := o.Identity
	id.Clients.Trusted = slices.Concat(id.Clients.Trusted, o.Trust)
	return id, id.Validate()
}
