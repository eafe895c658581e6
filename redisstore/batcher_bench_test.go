package redisstore

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"testing"

	"github.com/stintdev/stint"
)

// BenchmarkBatcher measures a check of a hot key among many callers, without the
// connection and the server.
func BenchmarkBatcher(b *testing.B) {
	e, err := newEncoding(&Options{})
	if err != nil {
		b.Fatal(err)
	}
	n := &node{}
	n.batchers[0].Store(newBatcher(generous{}, e, 0))
	s := &Store{encoding: e, topology: &topology{one: n}}
	claim := stint.Claim{Key: "user:00000001", Limit: benchmarkLimit(b), Cost: 1}
	const callers = 256
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range b.N / callers {
				if _, err := s.Take(context.Background(), claim); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// generous is a server where no key has a state. It admits all callers of a line.
type generous struct{}

func (generous) call(_ context.Context, calls []invocation, replies []reply) {
	for range 2 {
		runtime.Gosched() // other callers queue meanwhile
	}
	callers := uint32(1)
	if args := calls[0].args[0]; len(args) > 7+7+4+36 {
		callers = binary.BigEndian.Uint32([]byte(args[len(args)-6:]))
	}
	replies[0].data = singleReply(1, callers, nil)
}
