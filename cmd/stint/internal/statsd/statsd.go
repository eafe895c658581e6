// Package statsd sends metrics to a collector of StatsD or DogStatsD, as datagrams.
//
// [Open] reads an address. [Client.Run] reads a registry every ten seconds and sends what
// has changed: of counters and histograms the difference, of gauges the value. Labels are
// tags in the form of DogStatsD. A collector that knows no tags, such as Etsy's statsd,
// gets them as parts of the name (tags=none).
//
// No request waits for the collector. A difference that could not be sent is added to the
// next one: the socket must take it, and the system must not report that nobody listens. A
// datagram that is lost on the way is lost, as with every client of StatsD over UDP. A
// collector that fails is logged once, until it works again.
package statsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// interval is the time between two reads of the registry. Collectors of StatsD flush as
// often.
const interval = 10 * time.Second

// Bounds of one send, so that a collector that takes nothing cannot keep Run.
const (
	maxWrite    = time.Second            // for a socket whose collector does not read
	firstWait   = 50 * time.Millisecond  // for the report that nobody listens, after the first datagram
	furtherWait = 500 * time.Microsecond // after each further one
	maxEnd      = 500 * time.Millisecond // for the last send
)

// Options configures a [Client].
type Options struct {
	// Address is host:port, udp://host:port or unix:///path, each with ?tags=none for a
	// collector that knows no tags.
	Address string
	// Envoy sends the counts of limits in Envoy's files under the names of Envoy's own
	// service, too.
	Envoy bool
	// Interval is the time between two sends. 0 means 10 s.
	Interval time.Duration
	// Logger gets one line per outage. Nil discards them.
	Logger *slog.Logger
}

// Client sends metrics. Make it with [Open].
type Client struct {
	options          Options
	network, address string
	most             int // bytes of a datagram
	tags             bool
	lines            *lines

	conn net.Conn // nil: not open
	down bool
}

// Open returns a client. It opens nothing. An error says what is wrong with the address,
// and names the flag.
func Open(o Options) (*Client, error) {
	if o.Interval == 0 {
		o.Interval = interval
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{options: o}
	if err := c.parse(o.Address); err != nil {
		return nil, err
	}
	c.lines = newLines(c.tags, o.Envoy)
	return c, nil
}

// Largest datagrams: over UDP what every network takes whole, with the headers of IP.
const (
	maxUDP  = 1432
	maxUnix = 8192
)

// parse reads the address.
func (c *Client) parse(address string) error {
	const form = "write host:port, udp://host:port or unix:///path, each with ?tags=none for a collector without tags"
	if !strings.Contains(address, "://") {
		address = "udp://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("statsd: is not an address (%s)", form)
	}
	query, err := url.ParseQuery(u.RawQuery)
	c.tags = query.Get("tags") != "none"
	if tags, given := query["tags"]; err != nil || given && (len(tags) != 1 || tags[0] != "none" && tags[0] != "dogstatsd") || len(query) > 1 || len(query) == 1 && !given {
		return fmt.Errorf("statsd: %.80q is not a parameter (use tags=dogstatsd or tags=none)", u.RawQuery)
	}
	switch {
	case u.Scheme == "udp" && u.Hostname() != "" && validPort(u.Port()) && u.Path == "":
		c.network, c.address, c.most = "udp", u.Host, maxUDP
	case u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path):
		c.network, c.address, c.most = "unixgram", u.Path, maxUnix
	default:
		return fmt.Errorf("statsd: %.80q is not an address (%s)", address, form)
	}
	return nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// Run sends the metrics of a registry until ctx ends, and then what is left.
func (c *Client) Run(ctx context.Context, registry prometheus.Gatherer) {
	c.options.Logger.Info("sending metrics to StatsD", "address", c.address, "tags", c.tags)
	ticker := time.NewTicker(c.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.send(registry, time.Now().Add(max(c.options.Interval, 2*maxWrite)))
		case <-ctx.Done():
			c.send(registry, time.Now().Add(maxEnd))
			c.close()
			return
		}
	}
}

// send reads the registry and sends the lines, until the given time.
func (c *Client) send(registry prometheus.Gatherer, until time.Time) {
	families, err := registry.Gather()
	if err != nil {
		c.options.Logger.Debug("metrics could not be read", "error", err) // those that could be are there
	}
	c.lines.read(families, err == nil)
	c.note(c.sendAll(until))
}

// sendAll sends all lines that are due in as few datagrams as they fit in.
func (c *Client) sendAll(until time.Time) error {
	wait := firstWait
	for packet, sent := range c.lines.packets(c.most) {
		if !time.Now().Before(until) {
			return errors.New("the collector takes the lines too slowly")
		}
		if err := c.write(packet, wait); err != nil {
			c.close()
			return err
		}
		sent()
		wait = furtherWait
	}
	return nil
}

// write sends a datagram. Over UDP it waits a moment for the report that nobody listens,
// which the next operation on the socket returns.
func (c *Client) write(packet []byte, wait time.Duration) error {
	if c.conn == nil {
		conn, err := (&net.Dialer{Timeout: maxWrite}).Dial(c.network, c.address)
		if err != nil {
			return err
		}
		c.conn = conn
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(maxWrite)) // an open socket has deadlines
	if _, err := c.conn.Write(packet); err != nil {
		return err
	}
	if c.network != "udp" {
		return nil
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(wait))
	if _, err := c.conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func (c *Client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing is buffered
		c.conn = nil
	}
}

// note logs the beginning and the end of an outage.
func (c *Client) note(err error) {
	failed := err != nil
	switch {
	case c.down == failed:
	case failed:
		c.options.Logger.Warn("the collector of --statsd does not take metrics (check that it runs, and its address)", "error", err)
	default:
		c.options.Logger.Info("the collector of --statsd takes metrics again")
	}
	c.down = failed
}
