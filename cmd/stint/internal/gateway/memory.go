package gateway

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"github.com/stintdev/stint/cmd/stint/internal/http1client"
)

// memory is what an exchange needs while it is forwarded, in one piece: pieces of their own
// would cost more than the work that is done with them. It is used again after an exchange
// whose requests all went through http1client, which keeps nothing. http.Transport may still
// read a request, and write it, when it has returned the response.
type memory struct {
	in      http.Request // of the client, with the exchange as its context
	proxied httputil.ProxyRequest
	out     request          // without hop-by-hop fields
	sent    request          // to the first upstream
	header  http.Header      // of out, unless that is large
	answer  http1client.Room // of the first upstream
	values  [8]string
	count   int  // of values
	kept    bool // a transport may use the memory after its response
}

// memories keeps memory that is used again.
var memories = sync.Pool{New: func() any { return &memory{header: http.Header{}} }}

const maxKeptHeader = 32 // fields

// headerFor returns the header for a copy of a header with n fields. A map never shrinks, and
// to walk and clear it takes as long as for the most fields that it has had. So a large header
// is never in the memory, even if most of its fields are removed later: one client could
// otherwise slow the requests of all others down.
func (m *memory) headerFor(n int) http.Header {
	if n > maxKeptHeader {
		return make(http.Header, n)
	}
	return m.header
}

func newMemory() *memory {
	m, _ := memories.Get().(*memory)
	return m
}

// release ends the use of the memory.
func (x *exchange) release() {
	m := x.memory
	x.memory = nil
	if m.kept || len(m.header) > maxKeptHeader {
		return
	}
	clear(m.header)
	m.answer.Release()
	m.in, m.proxied, m.out, m.sent = http.Request{}, httputil.ProxyRequest{}, request{}, request{}
	m.values, m.count = [8]string{}, 0
	memories.Put(m)
}

// request is a request with its URL.
type request struct {
	http.Request

	target url.URL
	taken  bool
}

// copy returns a shallow copy of r with a URL of its own. Only the first copy is in the
// memory: a transport may still use it.
func (m *request) copy(r *http.Request) *http.Request {
	if m.taken {
		m = &request{}
	}
	m.taken, m.Request, m.target = true, *r, *r.URL
	m.URL = &m.target
	return &m.Request
}

// one returns a list of one value.
func (m *memory) one(value string) []string {
	if m.count == len(m.values) {
		return []string{value}
	}
	m.values[m.count] = value
	m.count++
	return m.values[m.count-1 : m.count : m.count]
}

// setOrDrop sets a field with a canonical name, or drops it if the value is empty.
func (m *memory) setOrDrop(h http.Header, name, value string) {
	if value == "" {
		delete(h, name)
		return
	}
	h[name] = m.one(value)
}
