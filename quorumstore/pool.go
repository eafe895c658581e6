package quorumstore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/stintdev/stint"
)

// do calls f with a connection. f sends commands and reads all of their answers. The error
// is explained. With fit, the call fails if the server must not be a member.
func (s *redisServer) do(ctx context.Context, fit bool, f func(*conn) error) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
	}
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	if fit && s.unfit.Load() != nil {
		f = s.refuse
	}
	err = c.use(ctx, f)
	s.release(c, err, errors.Is(ctx.Err(), context.Canceled))
	if known, ok := errors.AsType[*stint.Error](err); ok {
		return known
	}
	if err != nil {
		return s.noAnswer(ctx, err)
	}
	return nil
}

// refuse takes the place of a call to a server that must not be a member. It asks again now
// and then.
func (s *redisServer) refuse(c *conn) error {
	if s.recheckDue() {
		if err := s.recheck(c); err != nil {
			return err
		}
	}
	if m := s.unfit.Load(); m != nil {
		return m.err
	}
	return s.notSent(context.Background(), errRechecked)
}

// mostWaiting bounds the calls that wait for a connection. A server that does not answer
// holds each call until its time ends; further ones fail at once.
const mostWaiting = 64

// acquire returns an idle connection, or a new one. release returns it.
func (s *redisServer) acquire(ctx context.Context) (*conn, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.free
		return nil, s.refusal()
	}
	c := s.takeIdleLocked()
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	return s.connect(ctx)
}

// enter waits until fewer than Options.Conns connections are in use.
func (s *redisServer) enter(ctx context.Context) error {
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > mostWaiting {
		return s.notSent(ctx, errBusy)
	}
	select {
	case s.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return s.notSent(ctx, errBusy)
	}
}

// idleTime is how long an idle connection is used again. Servers and load balancers close
// idle connections, and a call on one that is closed then has an unknown outcome.
const idleTime = 10 * time.Second

// takeIdleLocked returns the idle connection that was used last, or nil if there is none.
func (s *redisServer) takeIdleLocked() *conn {
	last := len(s.idle) - 1
	if last < 0 {
		return nil
	}
	c := s.idle[last]
	s.idle = s.idle[:last]
	if time.Since(c.used) > idleTime {
		s.dropLocked(c)
		s.dropIdleLocked()
		return nil
	}
	return c
}

// dialed is the result of dialing.
type dialed struct {
	conn *conn
	err  error
}

// connect makes a connection. The caller may have less time than that takes: the attempt goes
// on for Options.Timeout, and its connection serves a later call.
func (s *redisServer) connect(ctx context.Context) (*conn, error) {
	done := make(chan dialed, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Timeout)
		defer cancel()
		c, err := s.dial(ctx)
		done <- dialed{c, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			<-s.free
			return nil, s.notSent(ctx, d.err)
		}
		return d.conn, nil
	case <-ctx.Done():
	}
	go func() {
		if d := <-done; d.err != nil {
			<-s.free
		} else {
			s.release(d.conn, nil, false)
		}
	}()
	return nil, s.notSent(ctx, errNoGreeting)
}

// dial makes a connection, and asks which process it leads to before anything else is sent.
func (s *redisServer) dial(ctx context.Context) (*conn, error) {
	username, password, err := s.opts.login(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := s.network(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, in: bufio.NewReaderSize(raw, bufferSize), used: time.Now()}
	if err = s.adopt(c); err == nil {
		err = c.use(ctx, func(c *conn) error { return s.greet(c, username, password) })
	}
	if err != nil {
		s.drop(c)
		return nil, redact(err, password)
	}
	return c, nil
}

// network makes a network connection, encrypted where TLS is set.
func (s *redisServer) network(ctx context.Context) (net.Conn, error) {
	dial := s.opts.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	raw, err := dial(ctx, "tcp", s.address)
	switch {
	case err != nil:
		return nil, err
	case raw == nil:
		return nil, errors.New("Options.Dial returned no connection and no error")
	case s.opts.TLS == nil:
		return raw, nil
	}
	if s.opts.files != nil {
		s.opts.files.LogTo(s.opts.Logger)
	}
	config := s.opts.files.Apply(s.opts.TLS)
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(s.address) // setDefaults has checked the address
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // nothing of a call was sent
		return nil, err
	}
	return secure, nil
}

// greet authenticates a new connection, and asks the server what it is.
func (s *redisServer) greet(c *conn, username, password string) error {
	c.begin()
	var before int
	switch {
	case username != "":
		c.command(3, "AUTH")
		c.word(username)
		c.word(password)
		before++
	case password != "":
		c.command(2, "AUTH")
		c.word(password)
		before++
	}
	if s.opts.DB != 0 {
		c.command(2, "SELECT")
		c.word(strconv.Itoa(s.opts.DB))
		before++
	}
	c.command(1, "INFO")
	if err := c.send(); err != nil {
		return err
	}
	for range before {
		if _, err := c.reply(); err != nil {
			return err
		}
	}
	info, err := readInfo(c)
	if err != nil {
		return err
	}
	if c.run = field(info, "run_id"); c.run == "" {
		return errNoRun
	}
	s.judge(info)
	return nil
}

func readInfo(c *conn) (string, error) {
	elements, err := c.reply()
	if err != nil {
		return "", err
	}
	if len(elements) != 1 {
		return "", errGarbled
	}
	return string(elements[0]), nil
}

// adopt adds a new connection to those that close ends.
func (s *redisServer) adopt(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.refusal()
	}
	s.open[c] = struct{}{}
	return nil
}

// mostBuffer bounds the memory that an idle connection keeps.
const mostBuffer = 256 << 10

// release takes a connection back. After an error other than a refusal, its remaining answers
// would be taken for those of other calls, so it is closed. The idle ones have most likely
// ended too, unless the caller just left.
func (s *redisServer) release(c *conn, err error, left bool) {
	defer func() { <-s.free }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !inSync(err) || s.closed {
		s.dropLocked(c)
		if !left {
			s.dropIdleLocked()
		}
		return
	}
	if cap(c.out) > mostBuffer {
		c.out = nil
	}
	c.used = time.Now()
	s.idle = append(s.idle, c)
}

// inSync reports whether all replies were read although a call failed with this error.
func inSync(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	_, known := errors.AsType[*stint.Error](err)
	return refused || known
}

func (s *redisServer) drop(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(c)
}

func (s *redisServer) dropIdleLocked() {
	for _, c := range s.idle {
		s.dropLocked(c)
	}
	s.idle = nil
}

func (s *redisServer) dropLocked(c *conn) {
	_ = c.Close()
	delete(s.open, c)
}

// close closes all connections. Calls in flight and later ones fail.
func (s *redisServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.idle = true, nil
	for c := range s.open {
		s.dropLocked(c)
	}
}
