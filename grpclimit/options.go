package grpclimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/stintdev/stint/httplimit"
)

// Options says how calls are counted and answered. The zero value counts by the address
// of the connection's peer. The names are those of [httplimit.Options].
type Options struct {
	// How calls are counted. These fields are for [Limit] and [NewCounter]. A [Decider]
	// that is given to [New] counts by itself.

	// By names the attributes that identify a client; together their values are the
	// key. They are "method" (the full name), "api_key", "ip", "header:NAME" of the
	// metadata, and others of [httplimit.Request.Attribute]. Unknown names are an
	// error. A call without one of the attributes is counted by ip instead; calls
	// without an ip share one key. Defaults to ip.
	By []string
	// Key, if not nil, returns the key that a call is counted under. If it returns "",
	// By applies. The key is one part: it must be valid for [stint.ValidateKey], or
	// the call fails with INVALID_ARGUMENT. Keys of Key and of By never collide. An
	// error means that the call cannot be decided.
	Key func(c *Call) (string, error)
	// Parts replaces By and Key for a [stint.JointLimiter]: one part for each of its
	// limiters, in the order given to [stint.Join].
	Parts []Part
	// Cost returns how many units a call or a message takes, at least 0; 0 passes it
	// uncounted, and below 0 it fails with INVALID_ARGUMENT. Defaults to 1.
	Cost func(c *Call) int64
	// IPv6Prefix is how many leading bits of an IPv6 address identify a client, 1 to
	// 128. Defaults to 64, because one customer often has a whole /64.
	IPv6Prefix int
	// Dialect selects the fields of the metadata.
	Dialect httplimit.Dialect
	// Jitter spreads the retries of clients that were denied at the same moment: a
	// random part, at most Jitter times the retry time, is added to it. From 0 to 1;
	// defaults to 0.
	Jitter float64

	// How calls are identified and answered. These fields are for [Limit] and [New].

	// Messages also decides each message that a client sends on a client stream. A
	// denied message ends the stream.
	Messages bool
	// MessageDecider, if not nil, decides these messages in place of the decider of
	// calls. It implies Messages.
	MessageDecider Decider
	// Identity says how the client of a call is identified.
	Identity httplimit.Identity
	// Trust lists the networks of proxies whose forwarding headers are believed, in
	// addition to those of Identity.Clients.
	Trust []netip.Prefix
	// OnDenied, if not nil, returns the error of a call or message that is denied, or
	// nil to let it pass, unless the call has a [httplimit.Request.TokenError]. denial
	// is the status that the client gets by default; its RetryInfo has the retry time,
	// jitter included.
	OnDenied func(c *Call, a *httplimit.Answer, denial *status.Status) error
	// OnError, if not nil, returns the error of a call that could not be decided, or
	// nil to let it pass. It cannot let a call pass that has a
	// [httplimit.Request.TokenError]. Defaults to [ErrorStatus].
	OnError func(c *Call, err error) error
	// Logger gets the errors of calls that could not be decided through no fault of
	// the client. It gets at most one line in ten seconds for each [stint.Code], with
	// the number of errors since the last line. Nil logs nothing.
	Logger *slog.Logger
	// Clock returns the current time for metadata and the log. Defaults to time.Now.
	Clock func() time.Time
}

// Part says how the key for one limiter of a joint limiter is made. The fields are those
// of [Options].
type Part struct {
	By  []string
	Key func(c *Call) (string, error)
}

// refuseCounting returns an error if an option of a counter is set.
func (o *Options) refuseCounting() error {
	if o.By != nil || o.Key != nil || o.Parts != nil || o.Cost != nil || o.IPv6Prefix != 0 || o.Dialect != httplimit.Standard || o.Jitter != 0 {
		return errors.New("the options By, Key, Parts, Cost, IPv6Prefix, Dialect and Jitter have no effect on a decider (set them in its NewCounter, write them in its rules, or use Limit)")
	}
	return nil
}

// http returns the options of the counter of HTTP requests that counts the calls.
func (o *Options) http() httplimit.Options {
	h := httplimit.Options{IPv6Prefix: o.IPv6Prefix, Dialect: o.Dialect, Jitter: o.Jitter}
	h.By, h.Key = attributes(o.By), emptyKeyFunc(o.Key)
	if o.Parts != nil {
		h.Parts = make([]httplimit.Part, 0, len(o.Parts)) // an empty list is an error there too
	}
	for _, p := range o.Parts {
		h.Parts = append(h.Parts, httplimit.Part{By: attributes(p.By), Key: emptyKeyFunc(p.Key)})
	}
	return h
}

// attributes returns the attributes by their names in HTTP. The method of a call is the
// path of its request; the method of that request is always POST.
func attributes(by []string) []string {
	named := slices.Clone(by)
	for i, name := range named {
		if name == "method" {
			named[i] = "path"
		}
	}
	return named
}

// emptyKeyFunc returns a function in place of a key function, and nil for nil. The counter
// of HTTP requests needs one to check the options. This one returns "", so By applies.
func emptyKeyFunc(key func(c *Call) (string, error)) func(*httplimit.Request) (string, error) {
	if key == nil {
		return nil
	}
	return func(*httplimit.Request) (string, error) { return "", nil }
}

// parts returns one part for each key of a call.
func (o *Options) parts() []Part {
	if o.Parts != nil {
		return o.Parts
	}
	return []Part{{o.By, o.Key}}
}

// checkQuery refuses query attributes. Calls have none, so all of them would be
// counted by ip.
func checkQuery(parts []Part) error {
	for _, p := range parts {
		for _, name := range p.By {
			if strings.HasPrefix(name, "query:") {
				return fmt.Errorf("%.100q: a call has no query (use header:NAME of the metadata)", name)
			}
		}
	}
	return nil
}

// claims reports whether a part counts by a claim of a token.
func claims(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool {
		return slices.ContainsFunc(p.By, func(name string) bool { return strings.HasPrefix(name, "jwt:") })
	})
}
