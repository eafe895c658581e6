package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// work holds the buffers for answering one request.
type work struct {
	*batch

	body, out []byte
}

// Bounds on what the pool keeps for the next request: bytes of a buffer, and items of a
// batch.
const (
	maxKept      = 256 << 10
	maxKeptItems = 256
)

// workPool reuses work, so that a decision allocates none.
type workPool struct {
	server *Server
	pool   sync.Pool
}

func (p *workPool) get() *work {
	k, ok := p.pool.Get().(*work)
	if !ok {
		k = &work{batch: &batch{server: p.server}}
	}
	k.begin()
	return k
}

func (p *workPool) put(k *work) {
	k.end()
	if max(cap(k.body), cap(k.out)) <= maxKept && len(k.asks) <= maxKeptItems {
		p.pool.Put(k)
	}
}

// deciding returns a handler for an endpoint whose body asks for one decision.
func (p *workPool) deciding(read func(b *batch, body []byte) error) http.HandlerFunc {
	return p.working(read, func(w http.ResponseWriter, r *http.Request, k *work) {
		out, got, err := k.settle(k.out[:0], &k.items[0])
		k.out = out
		if err != nil {
			p.server.fail(w, r, err)
			return
		}
		if got.closed {
			setRetry(w.Header(), got.face.RetryAfter)
		}
		k.write(w, statusOf(got.closed))
	})
}

// working returns a handler that reads the body, decides its items, and then answers.
func (p *workPool) working(read func(b *batch, body []byte) error, answer func(http.ResponseWriter, *http.Request, *work)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k := p.get()
		defer p.put(k)
		var err error
		if k.body, err = readBody(w, r, k.body); err != nil {
			p.server.fail(w, r, err)
			return
		}
		started := time.Now()
		if err := read(k.batch, k.body); err != nil {
			p.server.fail(w, r, err)
			return
		}
		k.decide(r.Context(), started)
		answer(w, r, k)
	}
}

// write sends the buffered answer.
func (k *work) write(w http.ResponseWriter, status int) {
	k.out = append(k.out, '\n')
	h := w.Header()
	setJSON(h)
	h.Set("Content-Length", strconv.Itoa(len(k.out)))
	w.WriteHeader(status)
	_, _ = w.Write(k.out) // the client may be gone
}
