package gateway

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
)

const (
	streamed  = 32 << 20 // bytes
	heapBound = 10 << 20 // bytes, less than a third of the body
)

// watched passes n bytes through and records the greatest growth of the heap since the
// start.
type watched struct {
	left     int64
	from, by uint64
}

func newWatched(n int64) *watched { return &watched{left: n, from: heap()} }

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Read returns zeros, and measures the heap every 8 MiB.
func (s *watched) Read(p []byte) (int, error) {
	n := min(int64(len(p)), s.left)
	if n == 0 {
		return 0, io.EOF
	}
	if s.left>>23 != (s.left-n)>>23 {
		if now := heap(); now > s.from {
			s.by = max(s.by, now-s.from)
		}
	}
	s.left -= n
	return int(n), nil
}

func TestBodiesStreamInBoundedMemory(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		var down *watched
		upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, err := io.Copy(io.Discard, r.Body)
			w.Header().Set("X-Got", fmt.Sprint(got, err))
			down = newWatched(streamed)
			_, _ = io.Copy(w, down)
		})
		s := serve(t, front, behind(t, back, upstream, Options{}))
		up := newWatched(streamed)
		r, _ := http.NewRequestWithContext(bounded(t), http.MethodPost, s.URL, up)
		res, err := clientOf(t, front, s).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		n, err := io.Copy(io.Discard, res.Body)
		if sent := fmt.Sprint(streamed, nil); n != streamed || err != nil || res.Header.Get("X-Got") != sent {
			t.Errorf("came %d bytes, %v; went %s", n, err, res.Header.Get("X-Got"))
		}
		if up.by > heapBound || down.by > heapBound {
			t.Errorf("the heap grew by %d bytes on the way up and %d on the way down", up.by, down.by)
		}
	})
}

func TestAnswerThatBreaksOffIsNotTakenForWhole(t *testing.T) {
	eachProtocol(t, func(t *testing.T, front, back string) {
		upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		s := serve(t, front, behind(t, back, upstream, Options{}))
		r, _ := http.NewRequestWithContext(bounded(t), http.MethodGet, s.URL, http.NoBody)
		res, err := clientOf(t, front, s).Do(r)
		if err != nil {
			return // it was cut off before the header was passed on
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("got %q as if it were whole", body)
		}
	})
}
