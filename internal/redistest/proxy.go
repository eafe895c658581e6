package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is a proxy in front of a server that injects network faults. Its methods are
// safe for concurrent use. Each method that sets a fault replaces the previous one,
// for existing and for new connections.
type Fault struct {
	listener *net.TCPListener
	target   *net.TCPAddr
	mu       struct {
		sync.Mutex
		conditions
		changed chan struct{} // closed at the next change
		links   map[*link]struct{}
	}
}

// conditions say how a proxy treats each direction.
type conditions struct {
	requests, replies treatment
	delay             time.Duration
	refuse            bool
}

// treatment is how the proxy treats the bytes of one direction when they are due.
type treatment uint8

const (
	deliver treatment = iota
	swallow
	hold
)

// Proxy starts a proxy in front of the target's address. It forwards everything until
// a method of Fault is called, and ends with the test.
func Proxy(t testing.TB, target string) *Fault {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.ResolveTCPAddr("tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	f := &Fault{listener: listener, target: to}
	f.mu.changed, f.mu.links = make(chan struct{}), map[*link]struct{}{}
	var done sync.WaitGroup
	done.Go(func() { f.accept(&done) })
	t.Cleanup(func() {
		_ = listener.Close()
		f.Reset() // also ends the wait for the next change
		done.Wait()
	})
	return f
}

// Addr returns the host and port that the proxy listens on.
func (f *Fault) Addr() string { return f.listener.Addr().String() }

// Delay delays all bytes by a duration, in both directions.
func (f *Fault) Delay(d time.Duration) { f.set(conditions{delay: d}) }

// Partition drops everything in both directions. Connections stay open at both ends,
// and neither bytes nor the end of a stream arrive. New connections are accepted and
// then silent, like connections over a dead link or to a full backlog.
func (f *Fault) Partition() { f.set(conditions{requests: swallow, replies: swallow}) }

// Hold is a partition without loss. Bytes sent in the meantime arrive at [Fault.Heal], like TCP
// retransmissions after a short partition.
func (f *Fault) Hold() { f.set(conditions{requests: hold, replies: hold}) }

// DropReplies delivers requests and drops their replies.
func (f *Fault) DropReplies() { f.set(conditions{replies: swallow}) }

// Reset resets all connections, and each new one as soon as it is open.
func (f *Fault) Reset() {
	f.set(conditions{refuse: true})
	f.Cut()
}

// Heal forwards everything again. It resets connections that lost bytes, because
// their streams cannot continue.
func (f *Fault) Heal() {
	f.set(conditions{})
	f.cut(func(l *link) bool { return l.lost.Load() })
}

// Cut resets the existing connections. The current fault stays for new ones.
func (f *Fault) Cut() { f.cut(func(*link) bool { return true }) }

func (f *Fault) set(w conditions) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.conditions = w
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
}

// now returns the conditions, and a channel that is closed when they change.
func (f *Fault) now() (conditions, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.conditions, f.mu.changed
}

func (f *Fault) cut(which func(*link) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.mu.links {
		if which(l) {
			l.reset()
		}
	}
}

func (f *Fault) accept(done *sync.WaitGroup) {
	for {
		client, err := f.listener.AcceptTCP()
		if err != nil {
			return // the listener is closed
		}
		l := &link{fault: f, client: client, ended: make(chan struct{})}
		f.mu.Lock()
		f.mu.links[l] = struct{}{}
		f.mu.Unlock()
		done.Go(func() {
			l.serve()
			f.mu.Lock()
			delete(f.mu.links, l)
			f.mu.Unlock()
		})
	}
}
