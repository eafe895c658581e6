package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is a proxy before a server, for faults of the network between the two
// ends. Its methods are safe for use by many goroutines. Each sets what
// holds from now on, for connections there are and those to come, in place of
// what held before.
type Fault struct {
	listener *net.TCPListener
	target   *net.TCPAddr
	mu       struct {
		sync.Mutex
		weather
		changed chan struct{} // closed at the next change
		links   map[*link]struct{}
	}
}

// weather is what a proxy does to what passes.
type weather struct {
	requests, replies passage
	delay             time.Duration
	refuse            bool
}

// passage is what happens to bytes of one direction when they are due.
type passage uint8

const (
	deliver passage = iota
	swallow
	hold
)

// Proxy starts a proxy before the target's address that passes everything on
// until it is told otherwise. It ends with the test.
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
		f.Reset() // also whoever waits for a change
		done.Wait()
	})
	return f
}

// Addr returns the host and port that the proxy listens on.
func (f *Fault) Addr() string { return f.listener.Addr().String() }

// Delay lets everything arrive so much later, in both directions.
func (f *Fault) Delay(d time.Duration) { f.set(weather{delay: d}) }

// Partition swallows everything in both directions: connections stay open at
// both ends and nothing arrives, nor does their end. New connections are
// accepted and then silent, as those through a dead link or to a full backlog
// look.
func (f *Fault) Partition() { f.set(weather{requests: swallow, replies: swallow}) }

// Hold is a partition that loses nothing: what was sent meanwhile arrives at
// [Fault.Heal], as the retransmissions of TCP do after a short one.
func (f *Fault) Hold() { f.set(weather{requests: hold, replies: hold}) }

// DropReplies lets requests arrive and swallows their replies.
func (f *Fault) DropReplies() { f.set(weather{replies: swallow}) }

// Reset resets all connections, and each new one as soon as it is open.
func (f *Fault) Reset() {
	f.set(weather{refuse: true})
	f.Cut()
}

// Heal passes everything on again. Connections that lost bytes are reset:
// their streams cannot go on.
func (f *Fault) Heal() {
	f.set(weather{})
	f.cut(func(l *link) bool { return l.lost.Load() })
}

// Cut resets the connections there are. What holds for new ones stays.
func (f *Fault) Cut() { f.cut(func(*link) bool { return true }) }

func (f *Fault) set(w weather) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.weather = w
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
}

// now returns what holds, and a channel that says when it no longer does.
func (f *Fault) now() (weather, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.weather, f.mu.changed
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
			return // closed
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
