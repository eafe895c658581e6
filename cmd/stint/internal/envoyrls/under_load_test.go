package envoyrls

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Files appear, disappear, break and are swapped. Meanwhile, requests of a domain that
// always has some good version are always limited by one of its versions.
func TestReloadsUnderLoadLoseNoLimit(t *testing.T) {
	dir := t.TempDir()
	steady, other := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, steady, limited("steady", "1000000"))
	f := watched(t, dir)
	var ended atomic.Bool
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			for r := request("steady", "k=1", "none=1"); !ended.Load(); {
				answer, err := f.ShouldRateLimit(t.Context(), r)
				if err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OK || answer.GetStatuses()[0].GetCurrentLimit() == nil {
					t.Errorf("%v %v", answer, err)
					return
				}
			}
		})
	}
	for i := range 60 {
		switch i % 6 {
		case 0:
			write(t, steady, "domain: steady\ndescriptors: [{")
		case 1:
			write(t, other, limited("other", "3"))
		case 2:
			write(t, steady, limited("steady", "2000000"))
		case 3:
			if err := os.Remove(other); err != nil {
				t.Fatal(err)
			}
		case 4:
			write(t, other, limited("steady", "5")) // another file has this domain
		case 5:
			_ = os.Remove(other)
		}
		f.Reload()
		select {
		case <-f.loaded:
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was loaded")
		}
	}
	ended.Store(true)
	askers.Wait()
}
