package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection through a proxy.
type link struct {
	fault *Fault
	lost  atomic.Bool   // the proxy dropped bytes of this connection
	once  sync.Once     // closes ended
	ended chan struct{} // closed by reset

	client, server *net.TCPConn // server is nil before the target is dialed
}

// reset ends both connections by a TCP reset.
func (l *link) reset() { l.once.Do(func() { close(l.ended) }) }

func (l *link) serve() {
	defer abort(l.client)
	if !l.connect() {
		return
	}
	defer abort(l.server)
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(l.client, l.server, func(w conditions) treatment { return w.requests }) })
	pumps.Go(func() { l.pump(l.server, l.client, func(w conditions) treatment { return w.replies }) })
	finished := make(chan struct{})
	go func() { pumps.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-l.ended:
		abort(l.client)
		abort(l.server)
		<-finished
	}
}

// connect dials the target as soon as the proxy lets bytes through.
func (l *link) connect() bool {
	for {
		w, changed := l.fault.now()
		switch {
		case w.refuse:
			return false
		case w.requests == deliver:
			var err error
			l.server, err = net.DialTCP("tcp", nil, l.fault.target)
			return err == nil
		}
		select {
		case <-changed:
		case <-l.ended:
			return false
		}
	}
}

// chunk is bytes in transit; an empty one is the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time
}

// inFlight is the maximum of chunks in transit in one direction.
const inFlight = 1024

// pump carries one direction until the end of the stream is delivered or the link is reset.
func (l *link) pump(from, to *net.TCPConn, which func(conditions) treatment) {
	chunks := make(chan chunk, inFlight)
	go l.read(from, chunks)
	for c := range chunks {
		if !l.deliver(c, to, which) {
			l.reset()
			break
		}
	}
	for range chunks { // drains until the reader ends
	}
}

func (l *link) read(from *net.TCPConn, chunks chan<- chunk) {
	defer close(chunks)
	for {
		buf := make([]byte, 64<<10)
		n, err := from.Read(buf)
		w, _ := l.fault.now()
		due := time.Now().Add(w.delay)
		if n > 0 {
			chunks <- chunk{buf[:n], due}
		}
		if err != nil {
			chunks <- chunk{nil, due}
			return
		}
	}
}

// deliver passes on or drops one chunk, by the faults in force when it is due. It returns
// false if the link has ended.
func (l *link) deliver(c chunk, to *net.TCPConn, which func(conditions) treatment) bool {
	if !l.sleep(time.Until(c.due)) {
		return false
	}
	for {
		w, changed := l.fault.now()
		switch which(w) {
		case deliver:
			return l.write(c, to)
		case swallow:
			l.lost.Store(true)
			return len(c.bytes) > 0 || l.sleepUntilReset()
		}
		select {
		case <-changed:
		case <-l.ended:
			return false
		}
	}
}

func (l *link) write(c chunk, to *net.TCPConn) bool {
	if len(c.bytes) == 0 {
		return to.CloseWrite() == nil
	}
	_, err := to.Write(c.bytes)
	return err == nil
}

// sleep returns false if the link was reset first.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// sleepUntilReset hides the end of a stream from both sides.
func (l *link) sleepUntilReset() bool {
	<-l.ended
	return false
}

func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails if the connection is closed already
	_ = conn.Close()
}
