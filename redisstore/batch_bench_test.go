package redisstore

import (
	"fmt"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// BenchmarkBatch measures what a check costs the client: writing a call of 32 keys and
// reading its reply. One b.N is one check.
func BenchmarkBatch(b *testing.B) {
	s := dialScripts(b, redistest.Server(b).Addr())
	batch := encodingOf(b, Options{}).newBatch()
	limit := limitOf(b, stint.PerMinute(100))
	var groups [32]stint.Group
	for i := range groups {
		groups[i].Claims = []stint.Claim{{Key: fmt.Sprintf("user:%08d", i), Limit: limit, Cost: 1}}
	}
	fill := func() invocation {
		batch.reset()
		for i := range groups {
			batch.add(groups[i].Claims, 0)
		}
		return batch.invocation()
	}
	s.run(fill())
	reply := s.run(fill())
	var out [32]stint.Decision
	var errs [32]error
	b.ReportAllocs()
	for i := 0; i < b.N; i += len(groups) {
		fill()
		batch.decode(reply, out[:], errs[:])
	}
	if errs[0] != nil || out[0].Remaining != 98 {
		b.Error(errs[0], out[0])
	}
}
